// Package contract says what a stand-in must satisfy to take a deployment's place, and checks answers against it.
//
// A workflow has a [Contract]: what it demands. A route has a [Profile]: what it states it is, and what it passed. Both are plain
// structs for files, with units in the names of their fields. What is demanded and not stated is a mismatch.
//
//   - [Contract.Check] lists the mismatches of the two. One that is not [Mismatch.Expired] never goes away, so a card with
//     it is refused; [Expires] is the moment at which time makes one, so the route is switched off then.
//   - [Profile.Approved] asks for the approval of one reason to move to the route.
//   - [Profile.Contradicts] compares what a route states with its deployment; [Profile.Capabilities] makes a deployment's.
//   - [Contract.Valid] and [Profile.Valid] find what cannot be meant in a file.
//   - [Validator] is a check for middleware.Validate: an answer that lacks what [Output] demands is BadOutput, which is repeated
//     once and moves elsewhere, and never success.
package contract
