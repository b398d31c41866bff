package openai

import "github.com/modelchain/llm/internal/wire"

// A scan is one of [wire.Scan], with what the answers of both APIs have.
type scan struct{ wire.Scan }

func scanOf(b []byte) (s scan) {
	s.Reset(b)
	return s
}
