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
// Bytes arrive exactly once and in order, or the stream ends with an error that names the peer. A
// deadline ends Read, Write and Accept, including calls that are already blocked; a deadline in the
// past ends them at once. CloseWrite ends one direction. Close sends written data first, for at
// most Config.Linger. Abort does not wait.
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
// A Conn may be shared between goroutines, like any net.Conn. Steady reading and writing does not
// allocate. Handlers of package vipl on the same NIC must not call Read or Write.
//
// A write is sent at once while fewer than four messages are in flight. Otherwise writes are
// combined until a quarter of the write buffer, at most 60 KiB, has accumulated or a message has been
// acknowledged. No timer delays data.
//
// # Flow control and memory
//
// If a reader stops reading, its writer blocks once the ReadBuffer at the reader and the
// WriteBuffer at the writer are full. At each end a stream occupies a ReadBuffer, a WriteBuffer and
// about 40 KiB, whatever the peer does.
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
// # Data path
//
// Each end has a ring of memory (Config.ReadBuffer) that the other end's VI may write to. A Write becomes
// RDMA writes into the peer's ring. Each carries its length as immediate data. So the receiver needs no
// buffer of a fixed size for each message, and small writes occupy only their own bytes. Read copies the
// requested bytes straight from the memory to which the NIC wrote them. This is the only copy on that side.
// The alternative, posted receives, would occupy a whole buffer even for a message of one byte. The number
// of these buffers would bound the bytes in flight, and long writes would have to be cut to their size.
//
// The sender copies up to 128 KiB, or Config.WriteBuffer bytes if that is less, to registered memory,
// and Write returns. It sends each message before it copies the next one. After each quarter of the
// buffer it requests an immediate acknowledgement, so that room becomes free before the buffer is full.
// A longer Write is sent straight from the caller's memory, which is registered during the call.
// Registering takes two short critical sections of the NIC's lock and no system call, because Go does
// not move the memory. Registered memory must not change until it is acknowledged, so Write requests the
// acknowledgement and waits for it. It copies the last 60 KiB, to keep the path busy meanwhile.
//
// A write is sent at once while fewer than four messages are in flight. Otherwise writes are coalesced
// until a quarter of the write buffer, at most 60 KiB, has accumulated or a message has been
// acknowledged, whichever is first. No timer delays data. The program need not call anything for that:
// while it computes, the NIC's own goroutine sends.
//
// # Credit
//
// A sender tracks the free space of the peer's ring and the number of receives posted for its
// messages. It has credit for both. The receiver returns credit when a quarter of the ring has been
// read, or half of the receives are posted again.
