module github.com/modelchain/llm/policy

go 1.26.0
