package wire

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// message takes the words of a layer.
func (w *walker) message(s string, depth int) {
	f := w.f
	if len(f.Text)+len(s) > maxText {
		s = s[:max(0, min(len(s), maxText-len(f.Text)))]
	}
	if s == "" || s == "None" || s == "null" {
		return
	}
	w.prefix(s)
	if w.messages++; w.messages <= maxMessages && !strings.Contains(f.Text, s) {
		if f.Text != "" {
			f.Text += "\n"
		}
		f.Text += s
	}
	if w.aside == 0 && (f.Message == "" || depth >= w.msgAt) {
		f.Message, w.msgAt = s, depth
	} else if f.Message == "" {
		f.Message = s
	}
}

// prefix notes the code that some servers and SDKs write before a message: "ThrottlingException: Rate exceeded".
func (w *walker) prefix(s string) {
	if w.f.plain {
		return
	}
	n, joint := 0, false
	for n < len(s) && n < 64 && (s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || s[n] == '_' || s[n] == '.') {
		joint = joint || s[n] == '_' || s[n] == '.' || n > 0 && s[n] >= 'A' && s[n] <= 'Z'
		n++
	}
	if joint && n < len(s) && s[n] == ':' {
		w.f.Inside = true
		w.note(Norm(s[:n]))
	}
}

// code notes a code, type or reason; to is the field it fills.
func (w *walker) code(s string, to *string, depth int) {
	s = strings.TrimSpace(s)
	switch s {
	case "", "None", "null", "error", "Error":
		return
	}
	if len(s) > 512 {
		s = s[:512]
	}
	if s[0] <= '9' { // an error of Atoi costs more than the number
		if n, err := strconv.Atoi(s); err == nil {
			w.status(n, depth)
		}
	}
	at := &w.otherAt
	switch to {
	case &w.f.Code:
		at = &w.codeAt
	case &w.f.Type:
		at = &w.typeAt
	}
	if *to == "" || w.aside == 0 && depth >= *at {
		*to, *at = s, depth
	}
	w.note(Norm(s))
	if strings.IndexByte(s, ' ') > 0 { // a sentence: xAI does that
		w.aside++
		w.message(s, depth)
		w.aside--
	}
}

func (w *walker) note(code string) {
	if code == "" || len(w.f.Codes) >= maxCodes {
		return
	}
	if slices.Contains(w.f.Codes, code) {
		return
	}
	w.f.Codes = append(w.f.Codes, code)
}

func (w *walker) status(n, depth int) {
	if n >= 100 && n <= 599 && (w.f.Status == 0 || depth >= w.statusAt) {
		w.f.Status, w.statusAt = n, depth
	}
}

// delay notes a wait: a number of units, or a text with units. strong: it replaces what was noted.
func (w *walker) delay(s string, unit time.Duration, strong bool) {
	d, ok := units(s, unit)
	if !ok {
		if d, ok = duration(s); !ok {
			return
		}
	}
	if !w.f.HasDelay || strong && d > w.f.Delay {
		w.f.Delay, w.f.HasDelay = d, true
	}
}

// litellm reads what LiteLLM writes before an error: its own class and the provider's, as in
// "litellm.ContextWindowExceededError: litellm.BadRequestError: AzureException - …".
func (w *walker) litellm(s string) {
	if w.f.plain || !strings.Contains(s, "litellm.") {
		return
	}
	w.f.Inside = true
	w.f.Quoted = w.f.Quoted || !strings.HasPrefix(s, "litellm.") // it writes that first
	for rest := s; ; {
		_, after, ok := strings.Cut(rest, "litellm.")
		if !ok {
			break
		}
		n := 0
		for n < len(after) && (after[n]|0x20 >= 'a' && after[n]|0x20 <= 'z') {
			n++
		}
		w.note(Norm(after[:n]))
		rest = after[n:]
	}
	if w.f.Upstream != "" {
		return
	}
	if i := strings.Index(s, "Exception"); i > 0 {
		from := strings.LastIndexAny(s[:i], " :-") + 1
		if from < i && i-from < 40 {
			w.f.Upstream = s[from:i]
		}
	}
}
