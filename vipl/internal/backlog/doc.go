// Package backlog holds a listener's connection requests, so that a flood of requests, or
// requests in the name of others, do not shut the listener:
//
//   - Any host can send a request with a forged source. The listener answers each by a Retry. The
//     repetition with the Retry's token proves that the sender is reached at its address (see
//     package guard). Only proven requests come here. The NIC keeps nothing of the others. A
//     Retry is shorter than its request, so a forged source attracts fewer bytes than were sent.
//   - A client repeats its request until it is accepted. One that does not has gone: other requests
//     are taken first, and its request is dropped when the queue is full. A server that waits
//     until such a client is connected gives it up when others wait.
//   - Decided requests are remembered long enough that a late repetition is not taken for a new
//     request. The oldest make room for new ones.
//
// A Backlog is pure: requests and the time in nanoseconds are arguments, the verdict is
// returned, and it sends nothing.
package backlog
