# The commands of this repository. CI is bash .ci/run, which needs no make.

.PHONY: test race lint fix bench soak soak-redis fuzz examples api ci

test: ## what a newcomer runs
	go test work

race: ## every test under the race detector in random order
	go test -race -shuffle=on work

lint: ## gofmt, go vet, golangci-lint, go mod tidy
	bash .ci/run format vet lint tidy

fix: ## what gofmt, golangci-lint and go mod tidy can mend by themselves
	bash .ci/run fix

bench: ## the onion against failsafe-go: times and allocations of five runs
	cd benchmarks && go test -run '^$$' -bench . -benchmem -count=5 .

SOAK = 1000000
soak: ## a million calls through random onions in fake time; make soak SOAK=100000 makes fewer, at least 12000
	go test ./middleware -run '^TestSoak$$' -count=1 -timeout 60m -v -calls $(SOAK)

soak-redis: ## a million calls of four replicas that share a Redis: what they leave in it and in memory does not grow
	cd stores/redis && LLM_TEST_REDIS_SOAK=$(SOAK) go test . -run '^TestSoak' -count=1 -timeout 60m -v

fuzz: ## every fuzz target for a minute
	FUZZTIME=60s bash .ci/run fuzz

examples: ## runs every example without a key
	bash .ci/run examples

api: ## records the exported API after a change that is meant
	go test ./internal/house -run TestExportedAPIIsRecorded -update

ci: ## everything that must hold before a change lands
	bash .ci/run
