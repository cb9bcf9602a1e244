// Package seal wraps a link so that its frames can be read, changed and made only by
// stations that have a key in common. Whoever is on the segment without it sees that there
// is traffic, and between whom, and can do nothing but to keep frames from arriving.
//
// # Why a wrapper
//
// The seal lies between whoever makes frames and the driver, so that every frame is sealed
// alike: data, acknowledgements, requests to connect and what ends connections, questions
// for names and their answers. No protocol above knows of it, and none can forget it. What
// it costs is paid once a frame: 36 bytes, 52 of one that is longer than the MTU, and one pass over the octets at each end. A
// station without a key has no wrapper and pays nothing.
//
// Sealing each connection by itself, as TLS does, would have left the frames that make and
// end connections, and the names, to a second mechanism. Sealing each frame under the key
// itself would have no forward secrecy, and replays would have to be told by a state that
// a restarted station has lost.
//
// # Sessions
//
// Between two stations (a MAC address, and the block of ports of one NIC there) frames go
// in a session. Its keys come from a handshake, Noise_NNpsk0_25519_ChaChaPoly_SHA256 by
// package github.com/flynn/noise: a Diffie-Hellman exchange of keys that are new each time,
// authenticated by the key that both have. Who learns that key later cannot read what was
// said in a session before (forward secrecy).
//
//	A                                                        B
//	| -- hello: nonce ------------------------------------>  |  one keyed hash, nothing kept
//	| <- cookie: that nonce, time, keyed hash of both -----  |
//	| -- init: both again, Noise message 1 --------------->  |  a cookie of the last 10 seconds, later than that of
//	| <- reply: Noise message 2 ---------------------------  |  any init before: keys, a session that awaits proof
//	| -- sealed frame ------------------------------------>  |  proof: B sends in the session from now on
//
// Each of these frames ends in a check, a keyed hash under the key, so that a stranger's
// costs one hash. Genuine ones that a stranger repeats are answered without memory (hello),
// or not at all (the others): the cookie proves that an init is of now, and its time that it
// is the first. No answer is longer than what it answers. Messages are repeated until they
// are answered; the frame that wanted the session waits for it, with up to 31 others, and is
// lost if there is none after about a second. When both stations begin at a time, the
// handshake of the lower MAC address goes on.
//
// A session is replaced by another after 2^32 frames, 4 TiB or 5 minutes in either
// direction, while frames go on in the old one; at twice of that nothing more is sent in it,
// and so no counter comes back. Keys of a session that has not been used for ten minutes are
// forgotten.
//
// A station that gets a frame of a session that it does not know, because it was restarted,
// says so, with a check, and its peer begins a new one. So a restart takes a round trip or
// three, not a time-out. A station that is sent to and is not heard for five seconds is asked
// for a new session, too.
//
// # Frames
//
// The layout is package ethertype's. The outer layout stays in clear, because filters and
// switches go by it: addresses, EtherType, version, ports, and a kind that says no more than
// "sealed". All that, with the session's number and the counter, is authenticated with the
// frame. What lies behind, from the frame's own version and kind on, is encrypted, by
// AES-128-GCM where both processors have instructions for it, and else by
// ChaCha20-Poly1305. The nonce is the counter, which each direction counts under a key of its
// own.
//
// A frame that is longer than the MTU (transport.LongLink) is sealed in two parts: the first 114 bytes, and
// the rest, whose nonce differs from that of the beginning in a bit. So the sender encrypts the data from where
// they lie, and the receiver, once the beginning has told him that they are of a receive or of an RDMA read of his own, decrypts them
// to where they belong. If they turn out to be not genuine, what is there is zeros, and the frame is lost.
//
// A receiver opens a frame first, or the beginning of a long one, and only then asks whether its counter is new: a window of
// 4032 counters tells what was reordered from what is replayed. A frame whose tag is wrong
// changes nothing but a counter in Stats. The tag of a long frame's rest is judged when its counter is noted already,
// since its beginning has been passed on and must not be again: with a forged rest behind it, the frame is lost. A session speaks for the MAC address and the ports
// that its handshake was for, and a frame from others in it is dropped.
//
// # Frames to all
//
// Questions for names go to all, and have no session. They are sealed under a key that is
// derived from the common one, by XChaCha20-Poly1305, whose long nonce is 16 random bytes of
// the sender's incarnation and a counter. They have no forward secrecy: later, who learns
// the key can read which names were asked for. Replays are told by a window for each sender
// heard of, the last 4096. A station that has not heard of a sender before, or that was
// restarted, takes a frame to all that a stranger has kept; what that can bring about is an
// answer, in a session with the station whose address it bears, which has the key, and
// which knows by the number in it that it has not asked. So a protocol above must not let a
// frame to all do more than ask, as those of this module do not.
//
// # Keys
//
// A Source gives one key, or two during a rotation: the first seals what is begun, both open
// what comes. To replace a key, give every station the old and the new one, in this order;
// then both, the new one first; then the new one alone. A session made under a key that is
// not valid any more ends at once.
//
// # Within a host
//
// Frames between programs of one host go through shared memory, around this link, and are
// not sealed: who can read the memory of a user's programs can read their keys, too. Other
// users' programs are kept out by the kernel (package shm), and vipl refuses to let them in
// when there is a key.
//
// # Who else is there
//
// Stats counts what could not be opened by reason, and the log says which stations are not
// understood, at most once a minute each. Such a station is told, if its frame was to this
// one alone, so that its own log can say the same; these notices are bounded to 200 a second.
// Everything that strangers can make a station remember, log or send is bounded.
package seal
