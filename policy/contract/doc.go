// Package contract says what a stand-in must satisfy to take a deployment's place, and checks answers against it.
package contract
