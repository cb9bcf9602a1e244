// Package engine is the one step of a NIC's engine: it takes frames from the link, sorts them, and
// hands each to whom it concerns: a connection, a handshake, the directory. It runs what is due,
// watches the interface under the link, and ends connections whose interface, station or peer has
// gone. Who drives it, and when, is said in package progress.
//
// A Machine knows VIs by their connections and the sides of their handshakes, and listeners
// by what they keep of requests. What the program is to be told of goes by Hooks. All of it
// runs with the lock of the progress.Engine held that drives it.
package engine
