package llmtest

import (
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

const ukrainian, russian = "Відкрийте налаштування та виберіть скинути пароль.", "Откройте настройки, чтобы изменить ваш пароль."

func TestLanguageIsToldByScriptByLettersAndThenByStatistics(t *testing.T) {
	for _, test := range []struct{ language, answer, want string }{
		{"en", "שלום, איך אפשר לעזור לך היום?", `it is in Hebrew letters, in which language "en" is not written`},
		{"he", "שלום, איך אפשר לעזור לך היום?", ""},
		{"en", "Καλημέρα, πώς μπορώ να βοηθήσω;", `it is in Greek letters, in which language "en" is not written`},
		{"en", "設定を開いてください", `it is in Japanese letters, in which language "en" is not written`},
		{"ja", "設定を開いてください", ""},
		{"zh", "設定を開いてください", `it is in Japanese letters, in which language "zh" is not written`},
		{"ja", "请点击设置，然后选择重置密码。", `it is in language "zh", not "ja"`},
		{"ru", "Open Settings, then Security.", `it is in Latin letters, in which language "ru" is not written`},
		{"en", "Բարեւ ձեզ", `it is in letters that are not known, in which language "en" is not written`},
		{"en", "123", `it is not in language "en": it has no letters`},
		{"en", "Zzqx", `it cannot be told to be in language "en"; it is too short, or looks like no language asked for`},
		{"ru", ukrainian, `it is in language "uk", not "ru"`},
		{"uk", ukrainian, ""},
		{"uk", russian, `it is in language "ru", not "uk"`},
		{"ru", russian, ""},
		{"ru", "Наш офис в городе Київ; вы можете прийти.", ""},
		{"EN", "Open Settings, then Security, then choose Reset password.", ""},
		{"en-US", "Open Settings, then Security, then choose Reset password.", ""},
		{"zh_Hant-TW", "請點擊設定，然後選擇重設密碼。", ""},
		{"no", "Åpne innstillinger og velg tilbakestill passord for kontoen din.", ""},
		{"no-NO", "Please open the Settings, and then choose what you would like to have.", `it is in language "en", not "no-NO"`},
		{"fa", "تنظیمات را باز کنید و گذرواژه را بازنشانی کنید", ""},
	} {
		w := Wants{Language: test.language}
		if err := w.check(); err != nil {
			t.Errorf("%q: %v", test.language, err)
		}
		got := strings.Join(w.wrong(&llm.Request{}, textResponse(test.answer), languagesOf([]Fixture{{Wants: w}})), "; ")
		if got != test.want {
			t.Errorf("%q is %q, want %q", test.answer, got, test.want)
		}
	}
}

func TestALanguageThatIsNotKnownIsSaidToBeSo(t *testing.T) {
	for _, code := range []string{"ca", "xx", "english", "-", "e"} {
		err := (&Wants{Language: code}).check()
		if err == nil || !strings.Contains(err.Error(), "is not one that can be told: those are af, ak, am, ") ||
			!strings.Contains(err.Error(), " no, ") || strings.Contains(err.Error(), ", ,") {
			t.Errorf("%q: %v", code, err)
		}
	}
}

func TestSentencesDoNotEndWithAbbreviations(t *testing.T) {
	for text, want := range map[string]int{
		"Dr. Smith paid e.g. 3 U.S. dollars.":                       1,
		"It is in the U.S. We ship there.":                          2,
		"It is in the U.S.":                                         1,
		"We ship pens, ink, etc. from here. Ask Mr. A.":             2,
		"We ship pens, ink, etc. You may ask.":                      2,
		"Das ist z.B. Tinte. Fragen Sie Hrn. Dr. Bunsen, bzw. uns.": 2,
		"See No. 5 (i.e. the last). No. We do not.":                 3,
		"Call at 5 p.m. or later.":                                  1,
		"1. Open Settings.\n2. Choose Reset.":                       2,
		"It costs 5. Pay now.":                                      2,
		"Stop. etc.":                                                2,
	} {
		if got := sentences(text); got != want {
			t.Errorf("%q has %d sentences, want %d", text, got, want)
		}
	}
}

func TestBoundsAreWrittenAsTheyAreSaid(t *testing.T) {
	w := Wants{Chars: Bounds{Least: 5}, Words: Bounds{Least: 2}, Sentences: Bounds{Least: 2}}
	got := strings.Join(w.wrong(&llm.Request{}, textResponse("x"), nil), "; ")
	if got != "1 character, fewer than 5; 1 word, fewer than 2; 1 sentence, fewer than 2" {
		t.Errorf("it is %q", got)
	}
}
