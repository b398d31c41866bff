// Package near finds the word that was meant by one that is not known.
package near

import "strings"

// Word is the one of words that text may have been meant as: of three letters one may be wrong. Case and what joins words, which
// is _, - or a space, do not count. "": there is none.
func Word[S ~string](text string, words []S) S {
	best, least := S(""), max(len(text)/3, 1)+1
	if len(text) < 3 {
		return "" // anything is near
	}
	for _, w := range words {
		word := string(w)
		d := distance(plain(text), plain(word))
		if len(text) > 3 && (strings.HasPrefix(word, text) || strings.HasPrefix(text, word)) {
			d = min(d, 1)
		}
		if d < least {
			best, least = w, d
		}
	}
	return best
}

func plain(s string) string {
	return strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(s))
}

// distance is the least number of letters to insert, drop, change or swap that makes a of b.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, now := rows[0], rows[1], rows[2]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		rows = [3][]int{last, now, before}
	}
	return rows[1][len(b)]
}
