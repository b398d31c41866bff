// Package tools runs the tools that a model asks for, each effect once.
package tools
