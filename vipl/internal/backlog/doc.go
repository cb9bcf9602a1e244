// Package backlog is what a listener keeps of connection requests, so that nobody who
// floods it, or who asks in the name of others, shuts it:
//
//   - Anybody can send a request in another's name. Each is answered by a Retry, and
//     proves by its repetition with the token that its sender is reached where it says
//     it is; see package guard. It need not wait for that: the first few, doubtfulMax, are
//     queued as they come, so that connecting takes no round trip more. Of the others
//     nothing is kept, nor of any where Strict is set. Those that are proven are taken first.
//   - To a requester that is not proven go at most three times the bytes that have come
//     in its name (as in RFC 9000, section 8.1).
//   - A client repeats its request until it is accepted. One that does not has gone: others
//     are taken first, and it goes when the queue is full. A server that waits for it
//     until it is connected gives it up when others wait.
//   - Decided requests are remembered so long that a repetition, which has been on its
//     way, is not taken for a new one; the oldest go before new ones would be refused.
//
// A Backlog is pure: requests and the time in nanoseconds are arguments, what is to be
// done about them is returned, and it sends nothing.
package backlog
