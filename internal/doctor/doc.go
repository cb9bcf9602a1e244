// Package doctor finds out what keeps Bobnet from working, or from working
// well, on this machine and segment.
//
// Collect finds the Facts; Judge turns them into Findings and does nothing else,
// so that every judgement can be tested without the machine that it is about.
// A finding says what was found and what it means, and, where it is not ok, gives
// the command that changes it or, where that depends, shows more.
package doctor
