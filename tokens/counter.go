package tokens

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"github.com/modelchain/llm"
)

// Config says what a [Counter] counts. The zero value counts each request for the model that it names itself.
type Config struct {
	// Model is the model whose tokens are counted, as its provider names it. "": the request's Model.
	Model string
	// Encoding, where it is set, is what texts are counted by, exactly, whatever the model: for a deployment whose name does
	// not tell its model. "": the model's.
	Encoding Encoding
	// Factor is what the encoding's count of a text is multiplied with for a model that has another tokenizer. 0: the
	// model's in the table of this package, 1 where Encoding is set. Negative values panic.
	Factor float64
	// Media estimates the tokens of an image, a file or audio. nil, or a negative result: the estimates of this package.
	Media func(part *llm.Part) int
}

// A Counter counts the input tokens of requests. It implements [llm.TokenCounter] and is safe for concurrent use.
//
// Counts are never too few for a text and a model of OpenAI's; see the package comment for what is estimated, and from
// which side.
type Counter struct {
	config Config
	fixed  *profile // nil: by the request's model
	// correction is what counts are multiplied with beyond their own factors, as learned, in units.
	correction atomic.Int64
}

// unit is a factor of one.
const unit = 1024

// For is a Counter for a model.
func For(model string) *Counter { return New(Config{Model: model}) }

// New is a Counter. A negative or infinite Factor and an unknown Encoding panic.
func New(c Config) *Counter {
	if !(c.Factor >= 0) || math.IsInf(c.Factor, 0) {
		panic(fmt.Sprintf("llm/tokens: Config.Factor is %v; use a positive number, or 0 for the model's own", c.Factor))
	}
	if c.Encoding != "" && c.Encoding != O200k && c.Encoding != CL100k {
		panic(fmt.Sprintf("llm/tokens: Config.Encoding is %q; use %q or %q, or leave it to the model", c.Encoding, O200k, CL100k))
	}
	counter := &Counter{config: c}
	counter.correction.Store(unit)
	if c.Model != "" || c.Encoding != "" {
		counter.fixed = c.profile(c.Model)
	}
	return counter
}

// profile is the table's profile for a model, with what c says otherwise.
func (c *Config) profile(model string) *profile {
	base := profileOf(model)
	if c.Encoding == "" && c.Factor == 0 {
		return base
	}
	p := *base
	if c.Encoding != "" {
		p.encoding, p.factor, p.digits = c.Encoding, 1, 3
	}
	if c.Factor > 0 {
		p.factor = c.Factor
	}
	return &p
}

func (c *Counter) profile(req *llm.Request) *profile {
	if c.fixed != nil {
		return c.fixed
	}
	return c.config.profile(req.Model)
}

// String names what is counted and how, such as "claude-3-5-haiku by cl100k_base ×1.5".
func (c *Counter) String() string {
	if c.fixed == nil {
		return "by the request's model"
	}
	s := strings.TrimSpace(c.config.Model + " by " + string(c.fixed.encoding))
	if c.fixed.factor != 1 {
		s += fmt.Sprintf(" ×%.3g", c.fixed.factor)
	}
	return s
}

// Load reads the vocabulary, which the first request that has to be tokenized does otherwise: about a third of a second,
// once for the process.
func (c *Counter) Load() error {
	if c.fixed == nil {
		return nil
	}
	_, err := c.fixed.encoding.vocabulary()
	return err
}

// CountTokens returns the input tokens of req. It only adds up lengths where their sum, which no count exceeds, stays
// within limit; else it tokenizes, until the count is over limit or what is left cannot exceed it. It fails if ctx ends.
func (c *Counter) CountTokens(ctx context.Context, req *llm.Request, limit int) (int, error) {
	if req == nil {
		return 0, nil
	}
	p := c.profile(req)
	correction := int(c.correction.Load())
	rest := p.bound(req, c.config.Media)
	if limit > 0 && (rest*correction+unit-1)/unit <= limit {
		return (rest*correction + unit - 1) / unit, nil
	}
	raw := 0
	if limit > 0 {
		raw = max(limit*unit/correction, 1) // what may be counted before correction
	}
	n, err := c.count(ctx, req, p, raw, rest)
	return (n*correction + unit - 1) / unit, err
}

// CountText returns the tokens of a text alone.
func (c *Counter) CountText(ctx context.Context, text string) (int, error) {
	p := c.profile(&llm.Request{})
	v, err := p.encoding.vocabulary()
	if err != nil {
		return 0, err
	}
	t := tally{profile: p, vocabulary: v, rest: len(text)}
	if err := t.text(ctx, text); err != nil {
		return 0, err
	}
	return t.sum, nil
}
