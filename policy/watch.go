package policy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Watch looks every now and then whether a file of the policy, or one of its keys, has other contents, and reloads the policy if
// so, until ctx is done. done is told what each such Reload led to, nil if it took; a file that stays bad is told of once. It
// returns the cause of ctx's end. It panics where every is not positive or done is nil.
//
// Keys in environment variables are read again with the next reload only.
func (s *Set) Watch(ctx context.Context, every time.Duration, done func(error)) error {
	if every <= 0 || done == nil {
		panic(fmt.Sprintf("llm/policy: Watch: every is %v, done set: %v; give it a time such as 5s, and a function for errors", every,
			done != nil))
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	last := s.now.Load().contents
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
		now, err := s.look(last)
		if now == last {
			continue
		}
		last = now
		done(err)
	}
}

// look reloads what is not as last said, and says how it is now.
func (s *Set) look(last string) (now string, err error) {
	s.reload.Lock()
	defer s.reload.Unlock()
	files, err := sources(s.path)
	if err != nil {
		return "unreadable: " + err.Error(), err
	}
	p := parse(files)
	contents := sum(files, p)
	if now = contents + sumOf(s.schemas); now == last {
		return now, nil
	}
	err = s.load(p, contents)
	return contents + sumOf(s.schemas), err
}

// keyFile is the path of the file that holds the key.
func (l *listed) keyFile() string {
	if filepath.IsAbs(l.Key.File) {
		return l.Key.File
	}
	return filepath.Join(filepath.Dir(l.file), l.Key.File)
}

// sum is a sum of files and of those that hold the keys.
func sum(files []source, p *parsed) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "%s %x\n", f.name, sha256.Sum256(f.data))
	}
	for _, r := range p.routes {
		if r.Key == nil || r.Key.File == "" {
			continue
		}
		b.WriteString(sumOfFile(r.name, r.keyFile(), mostKey))
	}
	return b.String()
}

// sumOf is a sum of files by name.
func sumOf(names []string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(sumOfFile(name, name, mostBytes))
	}
	return b.String()
}

// sumOfFile is a line with a name and the sum of the file at path, or why it cannot be read.
func sumOfFile(name, path string, most int64) string {
	data, err := readFile(path, most)
	return fmt.Sprintf("%s %x %v\n", name, sha256.Sum256(data), err)
}
