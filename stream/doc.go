// Package stream carries byte streams over reliable VIs: net.Conn and net.Listener, for
// programs written for TCP.
//
//	l, err := stream.Listen(ctx, "bobnet://files")     // one program
//	c, err := l.Accept()
//
//	c, err := stream.Dial(ctx, "bobnet://files")  // another, on the same segment
//	_, err = c.Write(data)
//	n, err := c.Read(buf)
//
// Code that uses net.Conn runs unchanged, net/http for example:
//
//	http.Serve(l, handler)
//
//	var d stream.Dialer
//	client := http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
//	client.Get("http://files/list")
//
// # Addresses
//
// "bobnet://NAME" is a name in the segment's directory: a listener advertises it
// (vipl.NIC.Advertise), and Dial looks it up. No name server is needed. The programs
// must choose names that are unique on the segment. "MAC:PORT" is a station and a port there, as
// LocalAddr and RemoteAddr return it. The MAC is written with hyphens,
// 02-00-00-00-00-01:1025, so that net.SplitHostPort accepts the address and it can stand in
// a URL; colons are accepted too. Any other text is a name, and a port after it is
// ignored. The host of a URL is therefore a name or such an address:
// "http://02-00-00-00-00-01:1025/list". A mistyped address is looked up as a name, and Dial
// then reports that no host answers to it.
//
// # Streams and NICs
//
// A Host is a NIC with all streams and listeners that share it. Open creates one. Programs
// that do not call Open use one Host for the process, on the interface that BOBNET_IFACE
// names.
//
// # Guarantees
//
// Bytes arrive exactly once and in order, or the stream ends with an error that names the
// peer. A deadline ends Read, Write and Accept, also calls that block already; a deadline
// in the past ends them at once. CloseWrite ends one direction. Close sends written data
// first, for at most Config.Linger. Abort does not wait.
//
// A dead peer is detected within Config.PeerTimeout, and at once if it closes its NIC
// or its process restarts. Read and Write then return an error that is a
// syscall.ECONNRESET and wraps the *vipl.ConnError with the reason. A write to a stream
// whose other end is closed returns syscall.EPIPE. All errors are a *net.OpError, except
// io.EOF.
//
// Additions to net.Conn: Peek and Discard read without a copy. Reserve and Commit write
// without a copy. TryWrite writes only if it need not wait.
//
// A Conn may be shared between goroutines, as any net.Conn. Steady reading and writing
// does not allocate. Handlers of package vipl on the same NIC must not call Read or Write.
//
// A write leaves at once while fewer than four messages are under way. Above that, writes
// are combined until 16 KiB have come or a message has been acknowledged. No timer delays
// data.
//
// # Flow control and memory
//
// A reader that stops reading stops its writer, when a ReadBuffer at the reader and a
// WriteBuffer at the writer are full. A stream takes these two and about 40 KiB at each
// end, whatever the peer does.
//
// A listener has room for Backlog streams that Accept has not returned, including
// streams whose handshake is not complete. Only requesters that have proven their address
// take room (vipl.Listener).
//
// # Security
//
// The peer can write to the stream's read buffer, and to nothing else: each stream has its
// own protection tag. It can change bytes there until they are read. Read copies bytes
// before the program sees them. A program that uses Peek must copy the bytes before it
// checks them. Wrong lengths and credits end the connection with ErrPeer and are counted
// (Counts.Refused). See also package vipl, Security.
package stream

// Notes for maintainers, which go doc does not print.
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
// # Credit
//
// A sender knows how much of the peer's ring is free, and how many of the receives that its
// messages take are posted: it has credit for both. Credit comes back when a quarter
// of the ring has been read, or half of the receives are posted again.
