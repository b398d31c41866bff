// Package contract says what a stand-in must satisfy to take a deployment's place, and checks answers against it.
//
// A workflow has a [Contract], a route a [Profile]. [Contract.Check] lists what does not fit, so that the route is never used;
// [Validator] checks each answer against [Contract.Output], so that an answer that lacks a required field is a failure.
package contract
