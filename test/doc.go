// Package test holds the tests that cross rooms, and those that keep the house
// tidy: sizes of files and functions, walls between packages, doc comments,
// and documents that must agree with the code. Run them with
//
//	go test ./test
package test
