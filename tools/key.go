package tools

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// Key is the key of a call: a hash of the turn, the tool's name, the canonical form of its arguments (RFC 8785) and its
// ordinal among the calls of the answer that are the same in all of this. It fails for arguments that are no JSON object or
// have no canonical form.
//
// The provider's id of a call is no part of it. A model that is asked again makes new ids for the same calls, and some
// servers count them from 0 in each answer, so an id alone would run an effect twice, or take one call for another. The
// ordinal is there because a model that asks twice in one answer means it: two coffees are two coffees.
func Key(turn, tool string, args json.RawMessage, ordinal int) (string, error) {
	canonical, err := canonicalObject(args)
	if err != nil {
		return "", err
	}
	return keyOf(turn, tool, canonical, ordinal), nil
}

func keyOf(turn, tool string, canonical []byte, ordinal int) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte("llm/tools 1"), []byte(turn), []byte(tool), canonical, []byte(strconv.Itoa(ordinal))} {
		var size [8]byte // so that no two lists of parts read the same
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxArguments bounds what is parsed: a model writes a few thousand tokens at most.
const maxArguments = 4 << 20

// canonicalObject is args as RFC 8785 writes it. No arguments are the empty object, as models leave them out.
func canonicalObject(args json.RawMessage) ([]byte, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 {
		return []byte("{}"), nil
	}
	if len(args) > maxArguments {
		return nil, fmt.Errorf("the arguments are %d bytes long; at most %d are taken", len(args), maxArguments)
	}
	if args[0] != '{' {
		return nil, errors.New("the arguments must be one JSON object, such as {\"city\": \"Oslo\"}")
	}
	out, err := jcs.Transform(args)
	if err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object that can be told from others: %w", err)
	}
	if err := exactNumbers(args); err != nil {
		return nil, err
	}
	return out, nil
}

// exactNumbers refuses numbers that a double does not hold. RFC 8785 writes them as the nearest double, which would make one
// call of two that differ in the last digit of an account. Digits of a fraction beyond those of a double are passed over.
func exactNumbers(args []byte) error {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the arguments are not valid JSON: %w", err)
		}
		if n, ok := token.(json.Number); ok && !exact(n.String()) {
			text := n.String()
			if len(text) > 40 {
				text = text[:40] + "…"
			}
			return fmt.Errorf("the number %s is not what a JSON number can hold (about 16 digits); write it as a string", text)
		}
	}
}

// exact reports whether the shortest text of n's double is the same number as n, or n is a fraction and near enough.
func exact(n string) bool {
	f, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return false
	}
	digits, exponent := decimal(n)
	if exponent < 0 && f != 0 && math.Abs(f) < 1<<53 {
		return true
	}
	wantDigits, wantExponent := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	return digits == wantDigits && exponent == wantExponent
}

// decimal is n as an integer without zeros at its ends, times a power of ten.
func decimal(n string) (digits string, exponent int) {
	mantissa := strings.TrimPrefix(n, "-")
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(mantissa[i+1:]); err != nil {
			exponent = 0 // zero has any exponent; another number with one beyond an int is beyond a double
		}
		mantissa = mantissa[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "", 0
	}
	exponent -= len(fraction)
	short := strings.TrimRight(digits, "0")
	return short, exponent + len(digits) - len(short)
}
