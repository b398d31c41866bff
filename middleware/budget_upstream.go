package middleware

import (
	"errors"
	"net/http"
	"strconv"
)

// AttemptsHeader is the header that [WriteAttempts] sets: how many attempts were made before this one for the same work.
const AttemptsHeader = "X-Request-Attempts"

// WriteAttempts tells the server of a request with the header h how many attempts were made before for the same work. None, 0
// or less, is no header; one that h has from an earlier request goes.
func WriteAttempts(h http.Header, n int) {
	if n <= 0 {
		h.Del(AttemptsHeader)
		return
	}
	h.Set(AttemptsHeader, strconv.Itoa(n))
}

// UpstreamAttempts is how many attempts the sender of h has made before for the same work, as it says: AttemptsHeader,
// X-Stainless-Retry-Count (the official clients of OpenAI and Anthropic, which repeat by themselves) or
// X-Envoy-Attempt-Count, which counts this one too. The largest counts; what cannot be read is 0, and nobody has made more
// than 1000. They belong into Request.Spent, of which the budget of a call begins, or are charged to that of the work
// ([Budget.Charge]).
func UpstreamAttempts(h http.Header) int {
	most := 0
	for header, mine := range map[string]int{AttemptsHeader: 0, "X-Stainless-Retry-Count": 0, "X-Envoy-Attempt-Count": 1} {
		for _, v := range h.Values(header) {
			n, err := strconv.Atoi(v)
			if err == nil || errors.Is(err, strconv.ErrRange) { // n is then the largest or smallest
				most = max(most, max(n, 0)-mine)
			}
		}
	}
	return min(most, 1000)
}
