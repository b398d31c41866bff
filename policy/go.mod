module github.com/modelchain/llm/policy

go 1.26.0

require (
	github.com/modelchain/llm v0.0.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
)

require golang.org/x/text v0.14.0 // indirect

replace github.com/modelchain/llm => ..
