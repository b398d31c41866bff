package tokens_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/tokens"
)

var icon = image.NewPaletted(image.Rect(0, 0, 40, 30), color.Palette{color.Black, color.White})

var iconPNG = sync.OnceValues(func() ([]byte, error) {
	var b bytes.Buffer
	err := png.Encode(&b, icon)
	return b.Bytes(), err
})

// pngOf is the head of a PNG of a size, which is all that tells it.
func pngOf(t testing.TB, w, h int) []byte {
	t.Helper()
	data, err := iconPNG()
	if err != nil {
		t.Fatal(err)
	}
	const ihdr, size = 12, 17 // where the chunk's type begins, and its length with that
	data = bytes.Clone(data)
	binary.BigEndian.PutUint32(data[ihdr+4:], uint32(w))
	binary.BigEndian.PutUint32(data[ihdr+8:], uint32(h))
	binary.BigEndian.PutUint32(data[ihdr+size:], crc32.ChecksumIEEE(data[ihdr:ihdr+size]))
	return data
}

// medium is what a part adds to a request.
func medium(t testing.TB, c *tokens.Counter, p llm.Part) int {
	t.Helper()
	return count(t, c, parts(llm.Text("hi"), p), 0) - count(t, c, user("hi"), 0)
}

var someModels = []string{
	"gpt-4o", "gpt-4o-mini", "gpt-4.1-mini", "o3", "gpt-5", "gpt-5-mini", "gpt-6", "gpt-4-turbo", "claude-3-5-sonnet", "claude-opus-4-8",
	"gemini-2.5-pro", "pixtral-12b", "llama-3.2-90b", "llama-2-7b", "qwen2.5-vl", "grok-4", "deepseek-v3", "never-heard-of", "",
}

func TestAFullHDImageIsEstimatedAt2700OrMore(t *testing.T) {
	hd := llm.Part{Kind: llm.PartImage, MIME: "image/png", Data: pngOf(t, 1920, 1080)}
	for _, model := range someModels {
		c := tokens.For(model)
		if n := count(t, c, parts(hd, hd, hd), 0); n < 3*2700 {
			t.Errorf("%q: three full-HD images are %d tokens, want at least 2700 each", model, n)
		}
	}
}

// What cannot be counted is never zero and never skipped.
func TestWhatCannotBeSeenIsEstimatedFromAbove(t *testing.T) {
	for _, model := range someModels {
		c := tokens.For(model)
		hd := medium(t, c, llm.Part{Kind: llm.PartImage, Data: pngOf(t, 1920, 1080)})
		for name, p := range map[string]llm.Part{
			"an image elsewhere":    {Kind: llm.PartImage, URL: "https://example.com/a.png"},
			"an image of bad data":  {Kind: llm.PartImage, Data: []byte("no image")},
			"an image of no size":   {Kind: llm.PartImage, URL: "data:image/webp;base64,UklGRg=="},
			"a file elsewhere":      {Kind: llm.PartFile, URL: "https://example.com/a.pdf"},
			"a file of a name only": {Kind: llm.PartFile, Name: "a.pdf"},
			"audio elsewhere":       {Kind: llm.PartAudio, URL: "https://example.com/a.mp3"},
			"a new kind elsewhere":  {Kind: "video", URL: "https://example.com/a.mp4"},
		} {
			least := 2700
			if p.Kind == llm.PartImage {
				least = hd
			}
			if n := medium(t, c, p); n < least {
				t.Errorf("%q: %s is %d tokens, want at least %d", model, name, n, least)
			}
		}
		for _, p := range []llm.Part{
			{Kind: llm.PartFile, Data: []byte("x")}, {Kind: llm.PartAudio, Data: []byte("x")}, {Kind: "thought"}, {Kind: "video", Data: []byte("x")},
		} {
			if n := medium(t, c, p); n < 1 {
				t.Errorf("%q: %s is %d tokens", model, p.Kind, n)
			}
		}
	}
}

// tiles is OpenAI's own formula for an image in high detail: scaled into 2,048 pixels, then to 768 on the shorter side.
func tiles(w, h float64) float64 {
	if f := 2048 / max(w, h); f < 1 {
		w, h = w*f, h*f
	}
	if f := 768 / min(w, h); f < 1 {
		w, h = w*f, h*f
	}
	return math.Ceil(w/512) * math.Ceil(h/512)
}

func patches(w, h, size float64) float64 { return math.Ceil(w/size) * math.Ceil(h/size) }

// The formulas that providers document, for sizes of all shapes.
func TestAnImageIsNeverEstimatedBelowItsProvidersFormula(t *testing.T) {
	for model, formula := range map[string]func(w, h float64) float64{
		"gpt-4o":          func(w, h float64) float64 { return 85 + 170*tiles(w, h) },
		"gpt-4o-mini":     func(w, h float64) float64 { return 2833 + 5667*tiles(w, h) },
		"o3":              func(w, h float64) float64 { return 75 + 150*tiles(w, h) },
		"gpt-5":           func(w, h float64) float64 { return 70 + 140*tiles(w, h) },
		"gpt-4.1-nano":    func(w, h float64) float64 { return 2.46 * min(patches(w, h, 32), 1536) },
		"o4-mini":         func(w, h float64) float64 { return 1.72 * min(patches(w, h, 32), 1536) },
		"gpt-6":           func(w, h float64) float64 { return 1.2 * min(patches(w, h, 32), 12_000) },
		"claude-3-opus":   func(w, h float64) float64 { return min(w*h/750, 1600) },
		"claude-opus-4-8": func(w, h float64) float64 { return min(patches(w, h, 28), 4784) },
		"gemini-2.5-pro": func(w, h float64) float64 {
			if w <= 384 && h <= 384 {
				return 258
			}
			return 258 * min(patches(w, h, 768), 24)
		},
		"qwen2.5-vl": func(w, h float64) float64 { return min(patches(w, h, 28), 16384) },
		"pixtral":    func(w, h float64) float64 { return patches(min(w, 1024), min(h, 1024), 16) },
	} {
		c := tokens.For(model)
		for _, w := range []int{1, 27, 64, 512, 513, 768, 1000, 1024, 1920, 3000, 4032} {
			for _, h := range []int{1, 33, 512, 600, 769, 1080, 1540, 2048, 3024} {
				n := medium(t, c, llm.Part{Kind: llm.PartImage, Data: pngOf(t, w, h)})
				if want := formula(float64(w), float64(h)); float64(n) < want {
					t.Errorf("%s: an image of %d×%d is %d tokens, its provider counts %.0f", model, w, h, n, want)
				}
			}
		}
	}
}

func TestASmallImageCostsLessThanALargeOneInEveryFormat(t *testing.T) {
	var p, j, g bytes.Buffer
	for _, err := range []error{png.Encode(&p, icon), jpeg.Encode(&j, icon, nil), gif.Encode(&g, icon, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := tokens.For("gpt-4o")
	for name, data := range map[string][]byte{"png": p.Bytes(), "jpeg": j.Bytes(), "gif": g.Bytes()} {
		if n := medium(t, c, llm.Part{Kind: llm.PartImage, Data: data}); n != 255 {
			t.Errorf("a small %s is %d tokens, want 255", name, n)
		}
		url := fmt.Sprintf("data:image/%s;base64,%s", name, base64.StdEncoding.EncodeToString(data))
		if n := medium(t, c, llm.Part{Kind: llm.PartImage, URL: url}); n != 255 {
			t.Errorf("a small %s in its URL is %d tokens, want 255", name, n)
		}
	}
}

func TestATextFileCountsAsText(t *testing.T) {
	c := tokens.For("gpt-4o")
	want := countText(t, c, sample)
	for _, p := range []llm.Part{
		{Kind: llm.PartFile, MIME: "text/markdown", Data: []byte(sample)},
		{Kind: llm.PartFile, MIME: "application/json; charset=utf-8", Data: []byte(sample)},
		{Kind: llm.PartFile, MIME: "image/svg+xml", Data: []byte(sample)},
		{Kind: llm.PartFile, URL: "data:text/plain;base64," + base64.StdEncoding.EncodeToString([]byte(sample))},
		{Kind: llm.PartFile, URL: "data:text/plain," + sample},
	} {
		if n := medium(t, c, p); n != want {
			t.Errorf("%s%.30s is %d tokens, want the text's %d", p.MIME, p.URL, n, want)
		}
	}
}

func TestAFileCostsByItsPages(t *testing.T) {
	c := tokens.For("gpt-4o")
	pdf := func(pages int) string {
		return "%PDF-1.4\n<< /Type /Pages /Kids [] /PageLabels 1 >>\n" + strings.Repeat("<< /Type /Page /Parent 1 0 R >>\n", pages)
	}
	for _, e := range []struct {
		name string
		part llm.Part
		want int
	}{
		{"a PDF of 3 pages", llm.Part{Data: []byte(pdf(3))}, 3 * 4600},
		{"a PDF of 200 pages", llm.Part{Data: []byte(pdf(200))}, 200 * 4600},
		{"a PDF of 3 pages in its URL", llm.Part{URL: "data:application/pdf;base64," + base64.StdEncoding.EncodeToString([]byte(pdf(3)))}, 3 * 4600},
		{"a short PDF without visible pages", llm.Part{Data: []byte("%PDF-1.7\n" + strings.Repeat("x", 3000))}, 2 * 4600},
		{"a long file", llm.Part{Data: make([]byte, 1<<20)}, 20 * 4600},
		{"a file elsewhere", llm.Part{URL: "https://example.com/a.docx"}, 20 * 4600},
	} {
		e.part.Kind = llm.PartFile
		if n := medium(t, c, e.part); n != e.want {
			t.Errorf("%s is %d tokens, want %d", e.name, n, e.want)
		}
		if n := count(t, c, parts(e.part), e.want-1); n < e.want {
			t.Errorf("%s is %d tokens against a limit of %d, want it over", e.name, n, e.want-1)
		}
	}
}

func TestAudioCostsByItsLength(t *testing.T) {
	c := tokens.For("gpt-4o-audio-preview")
	const seconds, most = 60, 32 // tokens a second, as Gemini counts
	for mime, bytesPerSecond := range map[string]int{"audio/mpeg": 2000, "audio/ogg": 3000, "audio/wav": 8000, "audio/L16": 32000} {
		n := medium(t, c, llm.Part{Kind: llm.PartAudio, MIME: mime, Data: make([]byte, seconds*bytesPerSecond)})
		if n < seconds*most {
			t.Errorf("a minute of %s at %d bytes a second is %d tokens, want at least %d", mime, bytesPerSecond, n, seconds*most)
		}
	}
}

func TestAnEstimateOfTheUsersOwnCounts(t *testing.T) {
	c := tokens.New(tokens.Config{Model: "gpt-4o", Media: func(p *llm.Part) int {
		if p.Kind == llm.PartAudio {
			return 77
		}
		return -1
	}})
	if n := medium(t, c, llm.Part{Kind: llm.PartAudio, URL: "https://example.com/a.mp3"}); n != 77 {
		t.Errorf("audio is %d tokens, want the 77 of Config.Media", n)
	}
	image := llm.Part{Kind: llm.PartImage, URL: "https://example.com/a.png"}
	if n, want := medium(t, c, image), medium(t, tokens.For("gpt-4o"), image); n != want {
		t.Errorf("an image that Config.Media leaves alone is %d tokens, want %d", n, want)
	}
}
