// Package rough measures a request where an exact count would cost more than it is worth.
package rough

import "github.com/modelchain/llm"

// Input is how many bytes of text a request holds, with 16 for the frame of each message, and how many images, files and
// audio.
func Input(req *llm.Request) (bytes, media int) {
	bytes = len(req.System)
	for i := range req.Messages {
		b, m := parts(req.Messages[i].Parts)
		bytes, media = bytes+16+b, media+m
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		bytes += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	if req.Format != nil {
		bytes += len(req.Format.Schema)
	}
	return bytes, media
}

func parts(ps []llm.Part) (bytes, media int) {
	for i := range ps {
		p := &ps[i]
		bytes += len(p.Text)
		if p.Call != nil {
			bytes += len(p.Call.Name) + len(p.Call.Arguments)
		}
		if p.Result != nil {
			b, m := parts(p.Result.Parts)
			bytes, media = bytes+b, media+m
		}
		switch p.Kind {
		case llm.PartImage, llm.PartFile, llm.PartAudio:
			media++
		}
	}
	return bytes, media
}
