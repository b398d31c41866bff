package classify

import "time"

// tables are the built-in rows: those of the provider families, then the general ones. Within a step the family's
// rows are asked first, in the order they stand here.
func tables() [][]Rule {
	return [][]Rule{
		openaiRules(), azureRules(), githubRules(), anthropicRules(), googleRules(), bedrockRules(), cohereRules(),
		mistralRules(), groqRules(), cerebrasRules(), openrouterRules(), fireworksRules(), ollamaRules(),
		xaiRules(), chinaRules(),
		codeRules(), textRules(), hintRules(), statusRules(), vagueRules(),
	}
}

// Words that say that a limit is one of pace. They keep rows for money and for size from deciding: pacing errors
// advertise upgrades and advise shorter prompts.
var pacing = []string{
	"per minute", "per min ", "per min)", "per second", "/ minute", "/minute", "/min)", "rate limit reached",
	"(tpm)", "(rpm)", "(rpd)", "(tpd)", "please wait before trying", "within a given time", "too many requests",
}

const day = 24 * time.Hour
