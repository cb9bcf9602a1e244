// Package engine implements the step of a NIC's engine. It takes frames from the link and
// dispatches each to its connection, handshake or the directory. It runs due work, watches the
// link's interface, and ends connections whose interface, station or peer has gone. Package
// progress documents who drives it, and when.
//
// A Machine knows VIs by their connections and the sides of their handshakes, and listeners by
// their queues of requests. It reports to the program through Hooks. The caller must hold the lock
// of the driving progress.Engine for everything.
package engine
