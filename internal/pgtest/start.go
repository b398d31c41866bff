package pgtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/modelchain/llm/internal/servertest"
)

// script runs a server until its standard input ends, which is when the process that holds the other end of the pipe does,
// also by SIGKILL: no signal, exit handler or TestMain has to work for the server to end and its files to go.
const script = `
dir=$1 bin=$2 port=$3
trap 'rm -rf "$dir"' EXIT
trap '' INT TERM HUP
cd "$dir" || exit 1
"$bin/initdb" -D data -U llm -A scram-sha-256 --pwfile=password -E UTF8 --locale=C --no-sync >log 2>&1 &&
	"$bin/pg_ctl" -D data -l server.log -w -t 60 \
		-o "-h 127.0.0.1 -p $port -c unix_socket_directories='' -c authentication_timeout=600" start >>log 2>&1 || {
	cat log server.log 2>/dev/null | tr '\n' ' '
	exit 1
}
echo ready
cat >/dev/null
"$bin/pg_ctl" -D data -m immediate stop >/dev/null 2>&1
`

// start starts a server of this process's own.
func start() (*server, error) {
	bin, err := programs("initdb", "pg_ctl", "postgres", "psql")
	if err != nil {
		return nil, err
	}
	var failed error
	for range 3 { // somebody else may take the port that was free
		s, err := startOn(bin)
		if err == nil {
			return s, nil
		}
		failed = err
	}
	return nil, failed
}

func startOn(bin string) (*server, error) {
	port, err := servertest.FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	password := rand.Text()
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte(password), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	//nolint:noctx // it is to live as long as the process
	c := exec.Command("/bin/sh", "-c", script, "sh", dir, bin, strconv.Itoa(port))
	c.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") }), "LC_ALL=C")
	if err := apart(c, dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	alive, _, err := servertest.Run(c, dir)
	if err != nil {
		return nil, err
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("llm", password), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return &server{admin: u.String(), psql: filepath.Join(bin, "psql"), alive: alive}, nil
}

// program finds one on the PATH or where Debian puts those of the newest server.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	if dirs := debian(); len(dirs) > 0 {
		if path, err := exec.LookPath(filepath.Join(dirs[0], name)); err == nil {
			return path, nil
		}
	}
	return "", servertest.Missing("the program " + name + " is neither on the PATH nor in /usr/lib/postgresql/*/bin; " +
		"install PostgreSQL")
}

// programs is the directory that has them all.
func programs(names ...string) (string, error) {
	dirs := debian()
	if path, err := exec.LookPath(names[0]); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, dir := range dirs {
		if !slices.ContainsFunc(names, func(name string) bool {
			_, err := exec.LookPath(filepath.Join(dir, name))
			return err != nil
		}) {
			return dir, nil
		}
	}
	return "", servertest.Missing(fmt.Sprintf("%s is not set, and the programs %s are neither together beside the %s on the "+
		"PATH nor in /usr/lib/postgresql/*/bin; set it to the address of a server, or install PostgreSQL",
		envServer, strings.Join(names, ", "), names[0]))
}

// debian lists its directories of programs, the newest server's first.
func debian() []string {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil
	}
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))) // what is no number comes last
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	return dirs
}
