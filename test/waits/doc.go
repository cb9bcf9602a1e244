// Package waits holds the tests that no message of any stack waits for a timer on a network without
// loss. They run in virtual time, in which only the network and timers take time.
package waits
