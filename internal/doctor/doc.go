// Package doctor diagnoses problems of Bobnet on this machine and its segment.
//
// Collect gathers Facts. Judge turns facts into Findings and has no other effect, so that every
// judgement can be tested without the machine. A finding describes what was found and what it means.
// If its level is not OK, it also contains a command that fixes the problem or shows more.
package doctor
