package tokens

import (
	"bytes"
	"encoding/base64"
	"image"
	_ "image/gif"  // sizes of GIF,
	_ "image/jpeg" // JPEG
	_ "image/png"  // and PNG images
	"io"
	"math"
	"strings"

	"github.com/modelchain/llm"
)

// imageRule estimates the tokens of an image from above. Providers cut images into patches or tiles and scale large ones
// down, each in its own way; a patch of 27 pixels, which is less than anyone's, times perPatch covers them.
type imageRule struct {
	// small is for images of at most 512 pixels each way, least and most bound all others; most also is for images whose
	// size cannot be told.
	small, least, most int
	perPatch           float64
}

// The rules, from the providers' documentation. A full-HD image has 2,880 patches, so none of them estimates less than
// 2,880 for it.
var (
	// 85 and 170 for each of up to eight tiles of 512 pixels.
	tileImage = imageRule{small: 255, least: 1445, most: 2880, perPatch: 1}
	// 2,833 and 5,667 for each tile.
	gpt4oMiniImage = imageRule{small: 8500, least: 48169, most: 48169, perPatch: 1}
	// Up to 1,536 patches of 32 pixels, 2.46 each on the dearest model.
	patchImage = imageRule{small: 720, least: 1, most: 3780, perPatch: 2.46}
	// 1.2 for each patch of 32 pixels, 14,400 for a photograph of 12 million of them; or tiles.
	latestImage = imageRule{small: 450, least: 1445, most: 16384, perPatch: 1.2}
	// A patch of 28 pixels each, up to 4,784.
	claudeImage = imageRule{small: 400, least: 1, most: 4800, perPatch: 1}
	// 258 for each tile of 768 pixels, or 1,120 whatever the size.
	geminiImage = imageRule{small: 1120, least: 1560, most: 6200, perPatch: 1}
	// A patch of 16 pixels each, on up to 1,024 pixels each way.
	mistralImage = imageRule{small: 1060, least: 1060, most: 4200, perPatch: 3}
	// 1,601 for each of up to four tiles.
	llamaImage = imageRule{small: 1601, least: 6404, most: 6404, perPatch: 1}
	// A patch of 28 pixels each, up to 16,384.
	qwenImage = imageRule{small: 400, least: 1, most: 16384, perPatch: 1}
	// Dearer than all of those but gpt-4o-mini.
	unknownImage = imageRule{small: 1601, least: 6404, most: 16384, perPatch: 3}
)

func (r imageRule) tokens(w, h int) int {
	if w <= 0 || h <= 0 {
		return r.most
	}
	if w <= 512 && h <= 512 {
		return r.small
	}
	const patch = 27
	n := math.Ceil(math.Ceil(float64(w)/patch) * math.Ceil(float64(h)/patch) * r.perPatch)
	return int(min(max(n, float64(r.least)), float64(r.most)))
}

// Estimates for what cannot be seen through.
const (
	// pageTokens is a page of a document: up to 3,000 tokens of text and a picture of 1,600, as Anthropic counts them; the
	// others count less.
	pageTokens = 4600
	// pageBytes is the least that a page takes up, and pagesUnseen how many are reckoned where none can be seen.
	pageBytes, pagesUnseen = 2000, 20
	// audioBytesPerToken holds for compressed speech of 16 kilobits a second at the 32 tokens a second that Gemini counts,
	// the most of all; wavBytesPerToken for samples of 8 bits at 8 kHz.
	audioBytesPerToken, wavBytesPerToken = 62, 250
	// audioUnseen is ten minutes.
	audioUnseen = 19200
	// mediaLeast is the least that any medium is estimated at.
	mediaLeast = 32
)

// mediaBound is what an image, a file or audio surely is not estimated above, told from lengths alone.
func (p *profile) mediaBound(part *llm.Part) int {
	switch part.Kind {
	case llm.PartImage:
		return p.image.most
	case llm.PartAudio:
		return audioTokens(part)
	}
	n := size(part)
	switch {
	case strange(part):
		return mediaLeast
	case textual(part):
		return n
	case isPDF(part):
		return n/len(pageMark)*pageTokens + unseenPages(n)*pageTokens
	}
	return unseenPages(n) * pageTokens
}

// mediaTokens is the estimate for an image, audio, or a file that is no text.
func (p *profile) mediaTokens(part *llm.Part) int {
	switch part.Kind {
	case llm.PartImage:
		return p.image.tokens(imageSize(part))
	case llm.PartAudio:
		return audioTokens(part)
	}
	if strange(part) {
		return mediaLeast
	}
	if isPDF(part) {
		if n := pdfPages(content(part)); n > 0 {
			return n * pageTokens
		}
	}
	return unseenPages(size(part)) * pageTokens
}

// strange reports whether a part is of a kind that is not known and holds no more than its texts.
func strange(part *llm.Part) bool {
	return part.Kind != llm.PartFile && len(part.Data) == 0 && part.URL == ""
}

// inline takes a data URL apart.
func inline(part *llm.Part) (mime, payload string, ok bool) {
	if len(part.Data) > 0 || !strings.HasPrefix(part.URL, "data:") {
		return "", "", false
	}
	return strings.Cut(part.URL[len("data:"):], ",")
}

// size is how many bytes a medium has, or somewhat more. 0: it is elsewhere.
func size(part *llm.Part) int {
	_, payload, _ := inline(part)
	return len(part.Data) + len(payload)
}

// content is the bytes of a medium that is here.
func content(part *llm.Part) []byte {
	mime, payload, ok := inline(part)
	if !ok {
		return part.Data
	}
	if strings.HasSuffix(mime, ";base64") {
		if data, err := base64.StdEncoding.DecodeString(payload); err == nil {
			return data
		}
	}
	return []byte(payload)
}

// textual reports whether a file is text, which then counts as text.
func textual(part *llm.Part) bool {
	if part.Kind == llm.PartImage || part.Kind == llm.PartAudio || size(part) == 0 {
		return false
	}
	mime, _, ok := inline(part)
	if !ok {
		mime = part.MIME
	}
	mime, _, _ = strings.Cut(mime, ";")
	switch mime {
	case "application/json", "application/xml", "application/yaml", "application/javascript", "application/x-ndjson":
		return true
	}
	return strings.HasPrefix(mime, "text/") || strings.HasSuffix(mime, "+json") || strings.HasSuffix(mime, "+xml")
}

// unseenPages is how many pages a document of n bytes is reckoned at whose pages cannot be counted.
func unseenPages(n int) int {
	if n == 0 {
		return pagesUnseen
	}
	return min(n/pageBytes+1, pagesUnseen)
}

// pageMark is in the object of each page of a PDF.
var pageMark = []byte("/Page")

func isPDF(part *llm.Part) bool {
	_, payload, _ := inline(part)
	return bytes.HasPrefix(part.Data, []byte("%PDF-")) || strings.HasPrefix(payload, "JVBERi0")
}

// pdfPages counts the pages of a PDF that are not packed into compressed objects. 0: none can be seen.
func pdfPages(data []byte) int {
	n := 0
	for {
		i := bytes.Index(data, pageMark)
		if i < 0 {
			return n
		}
		data = data[i+len(pageMark):]
		if len(data) == 0 || data[0]|0x20 < 'a' || data[0]|0x20 > 'z' { // not /Pages, /PageLabels
			n++
		}
	}
}

func audioTokens(part *llm.Part) int {
	n := size(part)
	switch {
	case n == 0:
		return audioUnseen
	case strings.Contains(part.MIME, "wav") || strings.Contains(part.MIME, "pcm") || strings.Contains(part.MIME, "L16"):
		return n/wavBytesPerToken + mediaLeast
	}
	return n/audioBytesPerToken + mediaLeast
}

// imageSize reads the size of an image from its first bytes. 0: it cannot be told.
func imageSize(part *llm.Part) (w, h int) {
	var r io.Reader = bytes.NewReader(part.Data)
	if mime, payload, ok := inline(part); ok && strings.HasSuffix(mime, ";base64") {
		r = base64.NewDecoder(base64.StdEncoding, strings.NewReader(payload))
	}
	c, _, err := image.DecodeConfig(r)
	if err != nil {
		return 0, 0
	}
	return c.Width, c.Height
}
