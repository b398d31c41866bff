module github.com/modelchain/llm/queue/river

go 1.26.0
