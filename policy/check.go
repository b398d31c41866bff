package policy

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/middleware"
)

// secretName is a name under which a key may have been written.
var secretName = regexp.MustCompile(`(?i)^(?:code|sig|auth|key)$|` +
	`(?:(?:api|access|subscription|private)[-_.]?key|secret|signature|password|token|credentials?|authorization)$`)

// check finds contradictions within a route.
func (l *listed) check(o *Options) {
	_, brought := o.Providers[l.Provider]
	names := openai.Providers()
	builtIn := slices.Contains(names, l.Provider)
	for name := range o.Providers {
		names = append(names, name)
	}
	slices.Sort(names)
	switch {
	case l.Provider == "": // missing, or wrong and said so
	case brought:
		for _, key := range []string{"api", "api_version", "key_header", "organization", "project"} {
			if l.has(under(l.path, key)) {
				l.bad(key, "put what the provider needs into settings", "%s is for the providers of package openai, not for %s", key,
					l.Provider)
			}
		}
	case !builtIn:
		mend := nearest(l.Provider, names)
		if mend == "" {
			mend = "use one of " + strings.Join(names, ", ") + ", or bring it in Options.Providers"
		}
		l.bad("provider", mend, "the provider %s is not known", quoted(l.Provider))
	case l.has(under(l.path, "settings")):
		l.bad("settings", "remove the line", "settings are for providers that the program brings, not for %s", l.Provider)
	case l.Provider == "azure" && l.BaseURL == "":
		l.bad("", "add base_url, such as https://NAME.openai.azure.com", "the provider azure has no address of its own")
	case l.Provider != "azure" && l.APIVersion != "":
		l.bad("api_version", "remove the line", "api_version is for azure, not for %s", l.Provider)
	}
	if l.BaseURL != "" {
		u, err := url.Parse(l.BaseURL)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			l.bad("base_url", "write something like https://api.example.com/v1", "base_url is no address")
		case u.User != nil:
			l.bad("base_url", noLiteralKey, "base_url holds a user or password")
		case slices.ContainsFunc(slices.Collect(maps.Keys(u.Query())), secretName.MatchString):
			l.bad("base_url", noLiteralKey, "base_url has a key in its query")
		}
	}
	for _, name := range sortedKeys(l.Settings) {
		if secretName.MatchString(name) {
			l.bad("settings."+name, noLiteralKey, "settings hold a key")
		}
	}
	l.checkProfile()
	if l.Window > 0 && l.MaxOutput > l.Window {
		l.bad("max_output", "lower it, or raise window", "max_output %d is more than the window of %d", l.MaxOutput, l.Window)
	}
	l.checkPrice()
}

// checkPrice finds a price of which a half is missing: what is not written would count as free under a ceiling of money.
func (l *listed) checkPrice() {
	p := l.Price.price()
	if l.Price == nil || !l.sound(under(l.path, "price")) {
		return
	}
	var missing []string
	for _, key := range []string{"input", "output"} {
		if !l.has(under(l.path, "price."+key)) {
			missing = append(missing, key)
		}
	}
	switch {
	case p == llm.Price{}:
		l.bad("price", "write free: true, or the prices", "price says nothing")
	case p.Free && p != llm.Price{Free: true}:
		l.bad("price.free", "remove one of them", "price has free and prices")
	case !p.Free && len(missing) > 0:
		l.bad("price", "add "+strings.Join(missing, ": … and ")+": …, 0 if that costs nothing", "price lacks %s",
			strings.Join(missing, " and "))
	}
}

// checks are those of one card.
type checks struct {
	*document
	all *parsed
	o   *Options
}

// check finds contradictions within a card and between it and the routes.
func (c *checks) check() {
	c.primary()
	c.fallbacks()
	c.longContext()
	c.closed()
	c.rows()
	c.limits()
	c.degraded()
	c.streams()
	c.prices()
	c.contract()
	if c.Journal != nil && c.o.Journal == nil {
		c.badAt("journal", "give Options a Journal, or remove the line", "journal is set and there is none")
	}
	if c.QueueAfter != nil && c.o.Queue == nil {
		c.badAt("queue_after_ms", "give Options a Queue, or write null", "queue_after_ms is set and there is no queue")
	}
}

// known reports a route that does not exist.
func (c *checks) known(path, name string) bool {
	if name == "" || c.all.route(name) != nil {
		return name != ""
	}
	names := c.all.routeNames()
	mend := nearest(name, names)
	switch {
	case len(names) == 0:
		mend = "add a document with routes"
	case mend == "":
		mend = "the routes are " + strings.Join(names, ", ")
	}
	c.badAt(path, mend, "there is no route %s", quoted(name))
	return false
}

// primary fills in the first route that is listed.
func (c *checks) primary() {
	if c.Primary != "" {
		c.known("primary", c.Primary)
		return
	}
	switch {
	case c.has("primary"):
	case len(c.all.routes) > 0:
		c.Primary = c.all.routes[0].name
	case len(c.all.errs) == 0:
		c.badAt("workflow", "add a document with routes", "the workflow has no route")
	}
}

func (c *checks) fallbacks() {
	primary := c.all.route(c.Primary)
	for i, f := range c.Fallbacks {
		at := fmt.Sprintf("allowed_fallbacks.%d.", i)
		if !c.known(at+"route", f.Route) {
			continue
		}
		switch {
		case f.Route == c.Primary && !c.has("primary"):
			c.badAt(at+"route", "add primary: with another route, or list another one first",
				"%s is the primary, because it is the first route that is listed", quoted(f.Route))
		case f.Route == c.Primary:
			c.badAt(at+"route", "remove it", "%s is the primary", quoted(f.Route))
		}
		if slices.ContainsFunc(c.Fallbacks[:i], func(o fallback) bool { return o.Route == f.Route }) {
			c.badAt(at+"route", "put the reasons together", "the route %s is listed twice", quoted(f.Route))
		}
		j := slices.Index(f.Reasons, "context_overflow")
		if j >= 0 && primary != nil && f.Route != c.Primary {
			c.larger(fmt.Sprintf("%sreasons.%d", at, j), primary, c.all.route(f.Route))
		}
	}
}

// larger reports r, which stands in for what does not fit primary, if it is not larger.
func (c *checks) larger(path string, primary, r *listed) {
	switch {
	case r.Window == 0:
		c.badAt(path, "give the route a window", "the window of %s is not known, so nothing too long is sent there", quoted(r.name))
	case primary.Window == 0:
		c.badAt(path, "give the primary a window", "the window of the primary %s is not known", quoted(primary.name))
	case r.Window <= primary.Window:
		c.badAt(path, "name a route with a larger one", "the window of %s, %d, is not larger than the primary's %d", quoted(r.name),
			r.Window, primary.Window)
	}
}

func (c *checks) longContext() {
	if !c.known("long_context", c.Long) {
		return
	}
	if c.Long == c.Primary {
		c.badAt("long_context", "name another route, or remove the line", "%s is the primary", quoted(c.Long))
		return
	}
	switch {
	case slices.Contains(classesOf(c.Closed), llm.TooLong):
		c.badAt("long_context", "keep one of them", "long_context is set and fail_closed_on has context_overflow")
	case c.reactions()[llm.TooLong].Elsewhere != middleware.Larger:
		c.badAt("long_context", "write elsewhere: larger there, or remove one of them",
			"reactions have no larger window for context_overflow, which long_context is for")
	}
	if primary := c.all.route(c.Primary); primary != nil {
		c.larger("long_context", primary, c.all.route(c.Long))
	}
}

// closed finds reasons that are in fail_closed_on too.
func (c *checks) closed() {
	for i, f := range c.Fallbacks {
		c.apart(fmt.Sprintf("allowed_fallbacks.%d.reasons", i), f.Reasons)
	}
	if c.Degrade != nil {
		c.apart("degrade.for", c.Degrade.For)
	}
	if c.Stream != nil && c.Stream.OnInterrupt == "continue" {
		c.apart("stream.on_interrupt", []string{"interrupted_stream"})
	}
}

// apart reports words of a class that fails closed.
func (c *checks) apart(path string, words []string) {
	for i, word := range words {
		for _, closed := range c.Closed {
			for _, class := range classesOf([]string{word}) {
				if slices.Contains(classesOf([]string{closed}), class) {
					at := fmt.Sprintf("%s.%d", path, i)
					c.badAt(at, "remove one of them", "%s and %s in fail_closed_on both stand for %v", quoted(word), quoted(closed), class)
					break
				}
			}
		}
	}
}

// rows finds reactions that contradict the rest of the card, or each other.
func (c *checks) rows() {
	by, table := map[llm.Class]string{}, middleware.DefaultReactions()
	for _, word := range sortedKeys(c.Reactions) {
		at := "reactions." + word
		changes := false
		for _, class := range classesOf([]string{word}) {
			changes = changes || c.Reactions[word].over(table[class]) != table[class]
		}
		if !changes && c.sound(at) {
			c.badAt(at, "say what differs from the table, or remove it", "the row for %s changes nothing", word)
		}
		for _, class := range classesOf([]string{word}) {
			if other := by[class]; other != "" {
				c.badAt(at, "keep one of them", "%s and %s are both about %v", word, other, class)
			}
			by[class] = word
			if slices.Contains(classesOf(c.Closed), class) {
				c.badAt(at, "remove one of them", "%s is in fail_closed_on as well", word)
			}
			if c.Reactions[word].Elsewhere != "nowhere" {
				continue
			}
			for i, f := range c.Fallbacks {
				if slices.Contains(classesOf(f.Reasons), class) {
					c.badAt(at+".elsewhere", "remove one of them", "%s moves nowhere, and allowed_fallbacks has a route for it in line %d", word,
						c.at[fmt.Sprintf("allowed_fallbacks.%d", i)].Line)
				}
			}
		}
	}
}

// limits finds limits that exceed those around them.
func (c *checks) limits() {
	within := func(path string, m, most millis, limit string) {
		if m > 0 && most > 0 && m > most {
			c.badAt(path, "lower it, or raise "+limit, "%s %d is more than %s %d", lastOf(path), m, limit, most)
		}
	}
	if t := c.Timeouts; t != nil {
		if *t == (timeouts{}) && c.sound("timeouts") {
			c.badAt("timeouts", "set one, or remove the line", "timeouts sets nothing")
		}
		within("timeouts.attempt_ms", t.Attempt, c.MaxElapsed, "max_elapsed_ms")
		within("timeouts.first_token_ms", t.FirstToken, c.MaxElapsed, "max_elapsed_ms")
		within("timeouts.idle_ms", t.Idle, c.MaxElapsed, "max_elapsed_ms")
		within("timeouts.first_token_ms", t.FirstToken, t.Attempt, "attempt_ms")
		within("timeouts.idle_ms", t.Idle, t.Attempt, "attempt_ms")
	}
	if r := c.Retry; r != nil {
		within("retry.base_ms", r.Base, cmp.Or(r.Cap, 20_000), "cap_ms")
		within("retry.base_ms", r.Base, c.MaxElapsed, "max_elapsed_ms")
		if r.Max != nil && c.MaxAttempts > 0 && *r.Max >= c.MaxAttempts {
			c.badAt("retry.max", "lower it, or raise max_total_attempts",
				"retry.max %d and the first attempt are more than max_total_attempts %d", *r.Max, c.MaxAttempts)
		}
		if r.Max != nil && *r.Max == 0 && *r != (retry{Max: r.Max}) {
			c.badAt("retry.max", "remove the other lines of retry, or raise it", "retry.max is 0, so nothing else of retry means anything")
		}
	}
	if d := c.Cooldown; d != nil {
		within("cooldown.rest_ms", d.Rest, d.Cap, "cap_ms")
		if d.Rest == 0 && d.Cap > 0 && d.Cap < 60_000 {
			c.badAt("cooldown.cap_ms", "add rest_ms", "cap_ms %d is less than rest_ms, which is 60000 if absent", d.Cap)
		}
	}
}

func (c *checks) degraded() {
	if c.Degrade == nil {
		return
	}
	if c.Degrade.LastGood == nil && c.Degrade.Answer == "" {
		c.badAt("degrade", "add last_good: {} or answer: TEXT, or remove degrade", "degrade has nothing to stand in")
	}
	c.placeholders("degrade.answer", c.Degrade.Answer, "{{wait}}")
	rows := c.reactions()
	for i, word := range c.Degrade.For {
		for _, class := range classesOf([]string{word}) {
			if rows[class].Closed && !slices.Contains(classesOf(c.Closed), class) {
				c.badAt(fmt.Sprintf("degrade.for.%d", i), "remove one of them", "%s is closed by its row in reactions", quoted(word))
			}
		}
	}
}

var placeholder = regexp.MustCompile(`\{\{[^{}]*\}\}`)

// placeholders reports those of a text that readers would get to see, since they are not known.
func (c *checks) placeholders(path, text string, known ...string) {
	for _, found := range placeholder.FindAllString(text, -1) {
		mend := "remove it"
		if len(known) > 0 {
			mend = "write " + strings.Join(known, " or ") + ", or remove it"
		}
		if !slices.Contains(known, found) {
			c.badAt(path, mend, "%s has the placeholder %s, which is not known", lastOf(path), quoted(found))
		}
	}
}

func (c *checks) streams() {
	s := c.Stream
	if s == nil {
		return
	}
	c.placeholders("stream.notice", s.Notice)
	if s.Whole && (s.Deltas > 0 || s.Bytes > 0 || s.Wait > 0) {
		c.badAt("stream.whole", "keep one of them", "whole holds everything back, so no window_ is needed")
	}
	switch {
	case s.OnInterrupt == "notice" && s.Notice == "":
		c.badAt("stream.on_interrupt", "add notice: TEXT", "there is no notice to give")
	case s.OnInterrupt != "notice" && s.Notice != "":
		c.badAt("stream.notice", "add on_interrupt: notice, or remove the line", "the notice is never given")
	case s.OnInterrupt == "continue" && len(c.continuers(c.all)) == 0:
		c.badAt("stream.on_interrupt", "give the primary, or a fallback with the reason interrupted_stream, the capability prefill",
			"no route of the workflow continues answers")
	}
}

// prices finds routes without a price where there is a ceiling of money.
func (c *checks) prices() {
	if c.MaxCost == 0 {
		return
	}
	for _, name := range c.used() {
		if r := c.all.route(name); r != nil && r.Price == nil {
			r.bad("", "add price: {input: …, output: …} or price: {free: true}",
				"the route %s has no price, and the workflow %s has max_incremental_cost_usd, so it would never be called", quoted(name),
				quoted(c.Workflow))
		}
	}
}
