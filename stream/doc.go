// Package stream carries byte streams over reliable VIs: net.Conn and net.Listener, for
// programs that speak TCP.
//
//	l, err := stream.Listen(ctx, "bobnet://files")     // one program
//	c, err := l.Accept()
//
//	c, err := stream.Dial(ctx, "bobnet://files")  // another, on the same segment
//	_, err = c.Write(data)
//	n, err := c.Read(buf)
//
// What runs over net.Conn runs over it unchanged, net/http for example:
//
//	http.Serve(l, handler)
//
//	var d stream.Dialer
//	client := http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
//	client.Get("http://files/list")
//
// # Addresses
//
// "bobnet://NAME" is a name in the segment's directory (vipl.NIC.Advertise), which a
// listener tells and Dial asks for; names need no server. "MAC:PORT" is a station and a
// port there, as LocalAddr and RemoteAddr return it. The MAC is written with hyphens,
// 02-00-00-00-00-01:1025, so that net.SplitHostPort splits the address and it can stand in a
// URL; colons are read as well. Anything else is taken for a name with, perhaps, a port
// behind, which is left out. So the host of a URL is a name or such an address:
// "http://02-00-00-00-00-01:1025/list".
//
// # Streams and NICs
//
// A Host is a NIC and all streams and listeners that share it. Programs that do not make
// one, by Open, share one for the process.
//
// # Promises
//
// Bytes arrive exactly once and in order, or the stream ends with an error that names the
// peer. A deadline ends Read, Write and Accept, also those that block already; in the past it
// ends them at once. CloseWrite ends one direction. Close sends what was written, with
// a bound (Config.Linger), and Abort does not wait. A peer that dies is noticed within Config.PeerTimeout, and at
// once if it closes its NIC or its process starts again: Read and Write then return an error
// that is a syscall.ECONNRESET and wraps the *vipl.ConnError that says who and why. Who
// writes to a stream whose other end is closed gets a syscall.EPIPE. Errors are a
// *net.OpError, but for io.EOF.
//
// What a net.Conn has not: Peek and Discard read, and Reserve and Commit write, where the data
// lie, without a copy, and TryWrite writes only if it need not wait.
//
// A Conn may be shared between goroutines, as any net.Conn. Steady reading and writing
// allocates nothing. Neither Read nor Write may be called by handlers of package vipl on the
// same NIC.
//
// # How data go
//
// Each end has a ring of memory (Config.ReadBuffer) that the other one's VI may write to. A
// Write becomes RDMA writes into the peer's ring, each with immediate data that say how many
// bytes came. So the receiver needs no buffer of a fixed size for each message, small
// writes take no more room than their bytes, and Read copies what it is asked for straight
// from where the NIC has put it: its copy is the only one on that side. Posted receives of
// messages were the other choice. They would hold a buffer for each message, be it of one
// byte, or bound the bytes under way by those buffers, and a long write would have to be
// cut to their size.
//
// At the sender up to Config.WriteBuffer bytes are copied to registered memory, and Write
// returns; with each quarter of them the other end is asked to acknowledge at once, so that there
// is room again before all is full. A longer Write is sent from where it lies: its memory is registered for
// the time of the call, which costs two short turns of the NIC's lock and no system call, since
// Go does not move it. What is registered must stay as it is until it has been
// acknowledged, so Write asks for that and waits; but its last 60 KiB are copied, so
// that the way is not empty meanwhile.
//
// A write leaves at once while fewer than four messages are under way. Above that, writes
// are coalesced until 16 KiB have come or a message has been acknowledged, whichever is first.
// No timer holds data back. Nobody needs to call anything for that: when the program
// computes, the NIC's own goroutine does it.
//
// # Push-back and memory
//
// A sender knows how much of the peer's ring is free, and how many of the receives are
// posted that its messages take: it has credit for both. Credit comes back when a quarter
// of the ring has been read, or half of the receives are posted again. A reader that stops
// stops its writer, when a ReadBuffer there and a WriteBuffer here are full. A stream takes
// these two and about 40 KiB at either end, whatever the peer does.
//
// A listener has Backlog places for streams that Accept has not returned, half open ones
// included. Only requesters that have proven their address get one (vipl.Listener).
//
// # Strangers
//
// The peer can write to the ring, and to nothing else: each stream has a protection tag of
// its own. It can change bytes there before they are read, which are its own; so Read
// copies before the program looks, and there is no WriteTo; who looks by Peek copies first what it
// checks. Lengths and credits are
// checked against what is possible; the first wrong one ends the connection with ErrPeer and
// is counted (Counts.Refused). For the rest, what package vipl says of strangers holds.
package stream
