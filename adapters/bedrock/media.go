package bedrock

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
)

// media is an image, a document or audio.
func (e *encoder) media(p *llm.Part, at adapter.Place) (any, *llm.Error) {
	kind, source, err := source(p, at)
	if err != nil {
		return nil, err
	}
	block := object{"source": source}
	var format string
	switch p.Kind {
	case llm.PartImage:
		format = subtype(kind, "image/", "png", "jpeg", "gif", "webp")
	case llm.PartAudio:
		format = subtype(kind, "audio/", "wav", "mp3", "mpeg", "ogg", "flac", "aac", "opus", "webm", "mp4", "m4a", "pcm")
	default:
		format = documentFormat(kind, p)
		block["name"] = e.documentName(p.Name)
	}
	if format == "" {
		return nil, adapter.Unsupported("%v is of type %q, which this API does not take as %s", at, kind, p.Kind)
	}
	block["format"] = format
	return block, nil
}

// source is the media type of a part and where its content is.
func source(p *llm.Part, at adapter.Place) (kind string, _ object, _ *llm.Error) {
	kind = p.MIME
	data := p.Data
	switch {
	case len(data) > 0:
	case strings.HasPrefix(p.URL, "s3://"):
		adapter.FillIn(&kind, mime.TypeByExtension(path.Ext(p.URL)))
		return plainType(kind), object{"s3Location": object{"uri": p.URL}}, nil
	case strings.HasPrefix(p.URL, "data:"):
		head, rest, _ := strings.Cut(p.URL[len("data:"):], ",")
		head, _ = strings.CutSuffix(head, ";base64")
		var err error
		if data, err = base64.StdEncoding.DecodeString(rest); err != nil {
			return "", nil, adapter.Invalid("%v has a data URL that is not base64", at)
		}
		adapter.FillIn(&kind, head)
	default:
		return "", nil, adapter.Unsupported("%v is given by its address; this API takes content, and s3:// addresses", at)
	}
	if p.Kind == llm.PartFile {
		adapter.FillIn(&kind, mime.TypeByExtension(path.Ext(p.Name)))
	}
	adapter.FillIn(&kind, http.DetectContentType(data))
	return plainType(kind), object{"bytes": data}, nil
}

// plainType is a media type without its parameters.
func plainType(kind string) string {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	return strings.TrimSpace(kind)
}

// subtype is what follows the prefix of a media type if it is among known, else "".
func subtype(kind, prefix string, known ...string) string {
	s, ok := strings.CutPrefix(kind, prefix)
	if !ok {
		return ""
	}
	s = strings.TrimPrefix(s, "x-")
	switch s {
	case "jpg":
		s = "jpeg"
	case "wave", "vnd.wave":
		s = "wav"
	}
	if !slices.Contains(known, s) {
		return ""
	}
	return s
}

// documentFormat is the API's word for a document of a media type, "" if it has none.
func documentFormat(kind string, p *llm.Part) string {
	switch kind {
	case "application/pdf":
		return "pdf"
	case "text/csv":
		return "csv"
	case "text/html", "application/xhtml+xml":
		return "html"
	case "text/markdown", "text/x-markdown":
		return "md"
	case "application/msword":
		return "doc"
	case "application/vnd.openxmlformats-officedocument.wordprocessingml.document":
		return "docx"
	case "application/vnd.ms-excel":
		return "xls"
	case "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":
		return "xlsx"
	}
	switch ext := strings.TrimPrefix(strings.ToLower(path.Ext(p.Name)), "."); ext {
	case "pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md": // what is known of some types is "a zip file"
		return ext
	}
	if strings.HasPrefix(kind, "text/") || kind == "application/json" || kind == "application/xml" {
		return "txt"
	}
	return ""
}

// documentName is a document's name as the API takes it: letters, digits, single blanks, hyphens, parentheses and square
// brackets. No two of a request are the same.
func (e *encoder) documentName(name string) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	clean := strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') && !strings.ContainsRune("-()[]", r)
	}), " ")
	clean = strings.TrimSpace(clean[:min(len(clean), 180)])
	adapter.FillIn(&clean, "document")
	unique := clean
	for n := 2; e.names[unique]; n++ {
		unique = fmt.Sprintf("%s (%d)", clean, n)
	}
	if e.names == nil {
		e.names = map[string]bool{}
	}
	e.names[unique] = true
	return unique
}
