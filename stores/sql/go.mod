module github.com/modelchain/llm/stores/sql

go 1.26.0
