package tun

// ErrTaken is errTaken, for tests.
var ErrTaken = errTaken
