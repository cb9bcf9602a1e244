// Package seal wraps a link so that only stations with a common key can read, change and create its frames. A station
// on the segment without the key can see that there is traffic, and between which stations. It can only prevent
// frames from arriving.
//
// Every frame is sealed in the same way: data, acknowledgements, connection requests, frames that end connections, and
// name queries with their answers. The cost per frame is 36 bytes, or 52 for a frame longer than the MTU, and one pass
// over the bytes at each end. A station without a key has no wrapper and no cost.
//
// # Sessions
//
// Frames between two stations belong to a session. A station is a MAC address and the block of ports of one NIC. The
// session's keys come from a handshake, Noise_NNpsk0_25519_ChaChaPoly_SHA256, implemented by package
// github.com/flynn/noise: a Diffie-Hellman exchange of ephemeral keys, authenticated by the common key. An attacker
// that learns the common key later cannot decrypt earlier sessions (forward secrecy).
//
//	A                                                        B
//	| -- hello: nonce ------------------------------------>  |  one keyed hash, nothing stored
//	| <- cookie: that nonce, time, keyed hash of both -----  |
//	| -- init: both again, Noise message 1 --------------->  |  a cookie of the last 10 seconds, later than that of
//	| <- reply: Noise message 2 ---------------------------  |  any init before: keys, a session that awaits proof
//	| -- sealed frame ------------------------------------>  |  proof: B sends in the session from now on
//
// Each of these frames ends with a check, a keyed hash under the key, so that a stranger's frame costs one hash. If a
// stranger repeats genuine frames, a hello is answered without stored state, and the others are ignored: the cookie
// proves that an init is recent, and its time that it is the first. No answer is longer than its request. Messages
// are repeated until they are answered. The frame that needs the session waits for it, with up to 31 others, and is
// lost after about a second without one. If both stations start at the same time, the handshake of the lower MAC
// address continues.
//
// A new session replaces the old one after 2^32 frames, 4 TiB or 5 minutes in either direction. Frames continue in
// the old one meanwhile. At twice these limits nothing more is sent in the old session, so no counter repeats. Keys
// of a session that has not been used for ten minutes are deleted.
//
// A station that receives a frame of an unknown session, because it was restarted, sends a notice with a check, and
// its peer starts a new session. So a restart costs up to three round trips, not a timeout. A station also requests a
// new session from a peer that it sends to and that has been silent for five seconds.
//
// # Frames
//
// Package ethertype documents the layout. The outer layout stays in clear text for filters and switches: addresses,
// EtherType, version, ports, and a kind that only says "sealed". It is authenticated with the frame, together with
// the session's number and the counter. The rest, from the frame's own version and kind on, is encrypted. The cipher
// is AES-128-GCM if both processors have instructions for it, and otherwise ChaCha20-Poly1305. The nonce is the
// counter. Each direction has its own key and counter.
//
// A frame longer than the MTU (transport.LongLink) is sealed in two parts: the first 114 bytes, and the rest, with a
// nonce that differs in one bit. So the sender encrypts the data straight from the program's memory. The receiver
// decrypts the beginning first. If it belongs to a receive or to an RDMA read of its own, the receiver decrypts the
// data straight to their destination. If the data are not genuine, the destination is set to zeros and the frame is
// lost.
//
// A receiver decrypts a frame, or the beginning of a long one, before it checks the counter. A window of 4032
// counters distinguishes reordered frames from replays. A frame with an invalid tag only increases a counter in
// Stats. The tag of a long frame's rest is verified after its counter has been consumed, because its beginning has
// been delivered and must not be delivered twice. With a forged rest, the frame is lost. A session is valid for the
// MAC address and the ports of its handshake; frames from others are dropped.
//
// # Broadcast frames
//
// Name queries are broadcast and have no session. They are sealed under a key that is derived from the common key,
// with XChaCha20-Poly1305. Its long nonce consists of 16 random bytes of the sender's incarnation and a counter.
// Broadcasts have no forward secrecy: an attacker that learns the key later can read the names in old queries. A
// window for each of the last 4096 senders detects replays. A station that does not know a sender, or was restarted,
// accepts an old broadcast that a stranger has recorded. The only effect is an answer, in a session with the station
// whose address the frame has. That station has the key, and the number in the answer shows that it has not asked. So
// a protocol above must not use a broadcast for more than queries; those of this module do not.
//
// # Keys
//
// A Source returns one key, or two during a rotation: the first seals new handshakes and broadcasts, and both open
// received frames. To replace a key, give every station the old and the new key, in this order; then both, with the
// new one first; then the new one alone. A session made under a key that is no longer valid ends at once.
//
// # Within a host
//
// Frames between programs of one host bypass this link through shared memory, and are not sealed: a program that can
// read the memory of a user's programs can read their keys, too. The kernel keeps out programs of other users
// (package shm), and vipl refuses to admit them if there is a key.
//
// # Other stations
//
// Stats counts frames that could not be opened by reason. The log names stations whose frames cannot be opened, at
// most once a minute each. If the frame was not a broadcast, the station gets a notice, so that its own log can
// report the same. These notices are limited to 200 a second. Everything that strangers can make a station store, log
// or send is bounded.
package seal

// Notes for maintainers, which go doc does not print.
//
// # Why a wrapper
//
// The seal lies between the protocol and the driver. No protocol above knows of it, and none can bypass it.
//
// Sealing each connection separately, as TLS does, would have left the frames that make and end connections, and the
// names, to a second mechanism. Sealing each frame under the key itself would have no forward secrecy, and the
// detection of replays would need state that a restart loses.
