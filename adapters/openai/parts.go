package openai

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// content is what a message holds: one text, or parts. nil: null.
type content interface{ content() }

type (
	oneText   string
	manyParts []content
)

type part struct {
	Type     string                   `json:"type"`
	Text     *string                  `json:"text,omitempty"`
	ImageURL *sdk.ChatMessageImageURL `json:"image_url,omitempty"`
	Audio    *audio                   `json:"input_audio,omitempty"`
	File     *file                    `json:"file,omitempty"`
}

// rawPart is a part with what Part.Extra wants with it.
type rawPart struct{ json.RawMessage }

func (oneText) content()   {}
func (manyParts) content() {}
func (*part) content()     {}
func (rawPart) content()   {}

type audio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type file struct {
	ID   string `json:"file_id,omitempty"`
	Name string `json:"filename,omitempty"`
	Data string `json:"file_data,omitempty"`
}

func (m *Model) part(p *llm.Part, i, j int) (content, *llm.Error) {
	out := &part{}
	switch p.Kind {
	case llm.PartText, "":
		out.Type, out.Text = "text", &p.Text
	case llm.PartImage:
		out.Type, out.ImageURL = "image_url", &sdk.ChatMessageImageURL{URL: p.URL}
		if len(p.Data) > 0 {
			out.ImageURL.URL = dataURL(p)
		}
	case llm.PartAudio:
		if len(p.Data) == 0 {
			return nil, adapter.Unsupported("Messages[%d].Parts[%d] is audio by URL; this API takes audio as Data only", i, j)
		}
		out.Type, out.Audio = "input_audio", &audio{Data: base64.StdEncoding.EncodeToString(p.Data), Format: audioFormat(p)}
	case llm.PartFile:
		f, err := m.file(p, i, j)
		if err != nil {
			return nil, err
		}
		out.Type, out.File = "file", f
	default:
		return nil, adapter.Invalid("Messages[%d].Parts[%d] is of the unknown kind %q", i, j, p.Kind)
	}
	raw, err := m.patched(out, p, i, j)
	if err != nil {
		return nil, err
	}
	if raw != nil {
		return rawPart{raw}, nil
	}
	return out, nil
}

// patched is out, which p became, with what p.Extra wants with it. nil: nothing.
func (m *Model) patched(out any, p *llm.Part, i, j int) ([]byte, *llm.Error) {
	names := slices.DeleteFunc(m.extraNames(), func(name string) bool {
		return isItem(p.Extra[name]) // of an answer: it says where the part came from, not what is wanted with it
	})
	patch, bad := adapter.Patch(p, names, adapter.Place{Message: i, Part: j})
	if bad != nil || patch == nil {
		return nil, bad
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, adapter.Invalid("Messages[%d].Parts[%d] cannot be written as JSON: %v", i, j, err)
	}
	return wire.Merge(raw, patch), nil
}

func (m *Model) file(p *llm.Part, i, j int) (*file, *llm.Error) {
	switch {
	case len(p.Data) > 0:
		f := &file{Name: p.Name, Data: dataURL(p)}
		adapter.FillIn(&f.Name, "file") // the API asks for some name
		return f, nil
	case strings.HasPrefix(p.URL, "file-"):
		return &file{ID: p.URL}, nil
	case m.dash.fileURLs:
		return &file{Name: p.Name, Data: p.URL}, nil
	}
	return nil, adapter.Unsupported("Messages[%d].Parts[%d] is a file by URL; this API takes Data, or an uploaded file's id as URL",
		i, j)
}

func dataURL(p *llm.Part) string {
	kind := p.MIME
	if kind == "" && p.Kind == llm.PartFile {
		kind = mime.TypeByExtension(p.Name[max(0, strings.LastIndexByte(p.Name, '.')):])
	}
	if kind == "" {
		kind = http.DetectContentType(p.Data)
	}
	var b strings.Builder
	b.Grow(len("data:;base64,") + len(kind) + base64.StdEncoding.EncodedLen(len(p.Data)))
	b.WriteString("data:")
	b.WriteString(kind)
	b.WriteString(";base64,")
	enc := base64.NewEncoder(base64.StdEncoding, &b)
	_, _ = enc.Write(p.Data) // a Builder does not fail
	_ = enc.Close()
	return b.String()
}

// audioFormat is the API's word for a media type: "wav", "mp3".
func audioFormat(p *llm.Part) string {
	kind := p.MIME
	if kind == "" {
		kind = http.DetectContentType(p.Data)
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	kind = strings.TrimPrefix(strings.TrimPrefix(kind, "audio/"), "x-")
	switch kind {
	case "wave", "vnd.wave":
		return "wav"
	case "mpeg", "mpeg3", "mp3":
		return "mp3"
	}
	return kind
}

// resultText is a tool's result as the one text that this API takes.
func resultText(r *llm.ToolResult, i, j int) (string, *llm.Error) {
	var texts []string
	for k := range r.Parts {
		if r.Parts[k].Kind != llm.PartText {
			return "", adapter.Unsupported("the tool result Messages[%d].Parts[%d] holds %s; this API takes text in tool results",
				i, j, r.Parts[k].Kind)
		}
		texts = append(texts, r.Parts[k].Text)
	}
	text := strings.Join(texts, "\n")
	if r.IsError && !strings.HasPrefix(strings.ToLower(text), "error") { // there is no field that says so
		text = strings.TrimSuffix("Error: "+text, ": ")
	}
	return text, nil
}

// callID is a tool call's id as the provider takes it. The same id always becomes the same.
func (m *Model) callID(id string) string {
	if !m.dash.shortIDs || shortID(id) {
		return id
	}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	h := adapter.Hash(id)
	var out [9]byte
	for i := range out {
		out[i] = letters[h%uint64(len(letters))]
		h /= uint64(len(letters))
	}
	return string(out[:])
}

func shortID(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return len(id) == 9
}
