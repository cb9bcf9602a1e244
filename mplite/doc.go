// Package mplite passes messages between the ranks of a parallel program. It implements the MP_Lite
// subset of MPI under Go names, over vipl's virtual interfaces.
//
// A job is a number of processes, the ranks. Each rank calls Init, which returns a
// communicator of all ranks, exchanges messages through it, and calls Finalize:
//
//	c, err := mplite.Init(ctx, nil) // rank, size and job name from the environment
//	if err != nil { ... }
//	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
//	_, err = mplite.Sendrecv(ctx, c, right, next, 0, left, prev, 0)
//	err = mplite.Allreduce(ctx, c, nil, residual, mplite.Max[float64]())
//	err = c.Finalize(ctx)
//
// Open is another name of Init. Close is Finalize without a context, for defer.
//
// Methods of Comm move bytes. Functions of the same names move elements of a Go type
// and convert the byte order at the receiver (see Elements). Every blocking call
// takes a context that ends it, with one exception (see Progress). Ranks find
// each other on the segment by the job's name; programs need no addresses.
//
// # Matching
//
// A receive names a source and a tag, or AnySource and AnyTag. Messages with
// the same source, tag and communicator are received in the order in which
// they were sent; a wildcard takes the oldest message that has arrived. A
// message may be shorter than the receive (Status.Count). A longer message fills
// the buffer and gives a TruncateError; later messages are not affected.
// Messages of different communicators never match each other, and collectives never
// match user tags.
//
// Sends to None and receives from None complete at once, so a program needs no special
// case for the edge of its grid. If several goroutines probe and receive, Mprobe
// reserves the probed message for one of them.
//
// # Elements
//
// An element is a number, a boolean, or an array or struct of elements, without
// pointers. Each message carries the type of its elements. A receive of another type
// fails with ErrType: its buffer is unchanged, the message is lost, and the sender is not
// notified. The rules are:
//
//   - Numbers match when their kind (signed, unsigned, floating-point, complex,
//     boolean) and size agree. int is an int64 where words have 64 bits.
//   - Bytes match everything and arrive unchanged, as MPI_BYTE and MPI_PACKED do.
//     The methods of Comm send bytes, and so does a []uint8.
//   - An array or struct of numbers of one kind, without padding, counts as that many
//     numbers. A struct of three float64 matches three float64.
//   - Any other struct matches one with the same numbers at the same offsets and
//     of the same size. It is sent as it lies in memory, padding included. Padding
//     and fields named _ are undefined at the receiver. Structs do not match if the two
//     machines lay out their fields differently, for example with another word size.
//
// Use a Vector for elements that are not contiguous, such as a column of a matrix.
//
// A message without elements matches every type. A message may end with a part of an
// element; Elements counts the whole elements.
//
// # Eager and rendezvous
//
// Send copies a message of up to Config.EagerSize bytes (the receiver's) and returns at
// once. A longer message is announced, and the sender then writes it by RDMA into the
// receiver's buffer. This avoids copies, but Send returns only after the receiver has
// called Recv. Post receives early to overlap such transfers with computation.
//
// A rank that has received messages of more than Config.EagerSize and up to 256 KiB from another
// rank grants that rank landing memory. While landing memory has room, the sender writes further
// messages of such a size to it without an announcement. Send then returns when the message has
// arrived, even before the Recv. Ssend always waits for the Recv.
//
// Between two processes of one user on one host, the receiver copies a message beyond the eager size
// once, out of the sender's memory, if the kernel permits it (process_vm_readv). It does so in a
// call that drives the protocol (see Progress). Such messages need no landing memory.
//
// Memory is bounded. A rank has room for Config.Credits messages from each of the other ranks,
// and in addition for Config.SpillLimit bytes of unexpected messages. When both are full,
// senders wait. Landing memory is 516 KiB for each rank that sends such messages, and at most
// 16 MiB.
//
// # Connections
//
// In a job of more than eight ranks, two ranks connect when one of them first sends to the other
// (OnUse). That message takes about three round trips more than later ones. The time of Init grows
// with the logarithm of the number of ranks, and a rank has buffers only for the ranks that it
// communicates with: a few for each, and up to Config.Credits for a rank that sends many messages
// at a time. A collective connects only the ranks between which its algorithm sends.
//
// If a connection fails because the peer refuses it or this rank has no resources, the sends that
// wait for it return the error, and the next send tries again. In a smaller job, and with
// Config.Connect Ahead, Init connects all ranks.
//
// # Progress
//
// Calls that wait, Test and Iprobe drive the protocol. A message is matched with its
// receive only in such a call. Between such calls, vipl's NIC continues to transfer data,
// acknowledgements and RDMA. Any number of goroutines may call this package at the same
// time.
//
// The exception to contexts: once a receive has matched a message beyond the eager size,
// the sender may write to its buffer at any time, and no context ends the receive. The
// receive ends when the message is complete, when the sender has withdrawn the message, or
// when the sender is dead. In the first two cases the sender's program must call this
// package: until then a Recv, Sendrecv or collective waits. The Wait of an Irecv does end
// with its context, but the request stays in use.
//
// # Collectives
//
// The algorithm depends only on the number of ranks n, on which of them share hosts, and on the size.
// Floating-point reductions therefore give the same bits on all ranks, and in every run with the same
// placement. Operands keep the order of the ranks, except in the algorithms marked commutative.
//
// Hosts are shared if the communicator has several hosts, and fewer than ranks (see Comm.SplitShared). Two
// levels means that the ranks of each host exchange messages among themselves, and one rank of each host
// with other hosts. A reduction that is not commutative does so only if the ranks of each host follow one
// another. Mixed hosts are shared hosts of which at least one has ranks that do not follow one another.
//
// The first row whose conditions a call meets selects its algorithm. Sizes are those of the message (Bcast), the vector (reductions),
// a part (Gather, Scatter, Alltoall), or all parts together (Allgather). "n elements" requires at
// least one element for each rank. Gatherv and Scatterv are direct. Allgatherv sends all messages at
// once or uses the ring, and Alltoallv sends all messages at once or exchanges them by pairs.
//
//	Barrier         shared memory                          shared memory
//	                shared hosts                           two levels
//	                n = 2^k                                recursive doubling
//	                else                                   dissemination
//	Bcast           < 64 KiB, shared memory                shared memory
//	                shared hosts                           two levels
//	                >= 512 KiB, n >= 8                     scatter and ring allgather (van de Geijn)
//	                else                                   binomial tree
//	Reduce          < 64 KiB, shared memory                shared memory
//	                shared hosts                           two levels
//	                >= 128 KiB, n >= 3, n elements         recursive halving, gather
//	                else                                   binomial tree
//	Allreduce       < 64 KiB, shared memory                shared memory
//	                < 64 KiB, shared hosts                 two levels
//	                mixed hosts                            two levels
//	                < 64 KiB                               recursive doubling
//	                < 128 KiB, n < 3                       recursive doubling
//	                n = 2^k, n elements                    recursive halving and doubling (Rabenseifner)
//	                >= 256 KiB, commutative, n elements    ring reduce-scatter and allgather
//	                n elements                             recursive halving and doubling (Rabenseifner)
//	                else                                   recursive doubling
//	Gather, Scatter < 32 KiB, shared memory                shared memory
//	                < 4 KiB, shared hosts                  two levels
//	                < 4 KiB, n >= 3                        binomial tree
//	                < 8 KiB, n >= 8                        binomial tree
//	                else                                   direct
//	Allgather       < 128 KiB, shared memory               shared memory
//	                < 64 KiB, shared hosts                 two levels
//	                n < 9                                  all messages at once
//	                < 512 KiB, n = 2^k                     recursive doubling
//	                < 32 KiB                               Bruck
//	                else                                   ring
//	Alltoall        < 32 KiB, shared memory                shared memory
//	                < 512 B, n >= 8                        Bruck
//	                n < 9                                  all messages at once
//	                < 32 KiB                               all messages at once
//	                else                                   pairwise exchange
//	ReduceScatter   < 128 KiB, shared memory, commutative  shared memory
//	                < 512 KiB, commutative                 recursive halving
//	                commutative                            pairwise exchange
//	                else                                   allreduce, own part kept
//	Scan, Exscan    < 64 KiB, shared memory                shared memory
//	                else                                   recursive doubling
//
// Shared memory means the communicator that Init returns, if all its ranks are connected (Config.Connect), at most 16,
// and processes of one user on one host. Each rank copies the data of other ranks out of this memory. Gatherv,
// Scatterv and Alltoallv then also do so, with parts of less than 32 KiB. Reductions give the same bits as without
// this memory. A rank can be up to eight calls ahead of a rank whose data it does not need. So it may return from as
// many calls without an error after that rank has died.
//
// Comm.SplitShared returns a communicator of the ranks on one host.
//
// Each collective has a nonblocking form, with an I before its name. It returns a Request.
// A program waits for it like for the Request of a send or receive, or together with such
// Requests. The collective runs the same algorithm, step by step, during any call of this
// package that drives the protocol. Any number of nonblocking collectives may be in
// progress on a communicator, along with blocking ones. They may complete in any order.
// Starting one allocates memory. The buffers belong to the library until it has completed.
// One rank may call the nonblocking form and another the blocking form. The end of a
// context that was passed to Wait ends only the wait, not the collective.
//
// A nil slice stands for MPI_IN_PLACE: the rank's part is already in the result buffer.
// MPI's displacements are optional last arguments.
//
// All ranks of a communicator call its collectives, of both forms, in the same
// order, and one goroutine at a time calls them. A collective that returns an
// error leaves the buffers undefined. If a context ended it, the communicator must
// not be used any more.
//
// # Calls that do not fit
//
// The messages of a collective carry the signature of the call: its number on the
// communicator, function, root, operation, type of elements, and the length if it
// must be equal everywhere. If the signatures of two ranks differ, or a part has another
// length than its receiver expects, all ranks get a MismatchError that names both calls.
// They get it from this call or, if they have left it already, from the next one. The
// communicator cannot be used for collectives after that. Ranks that all wait for each
// other detect the mismatch too: a rank that has waited for 100 ms asks the others. Invalid
// arguments at one rank also end the call at the other ranks. If no rank has left the
// call by then, the communicator can still be used.
//
// # Failure
//
// A rank is dead if it ends without Finalize, does not answer for Config.PeerTimeout, or sends
// malformed messages. The ranks that are connected with the dead rank detect its death. With OnUse
// these are the ranks that it exchanges messages with, and its neighbours in a tree of all ranks
// (package job). The first rank that detects the death notifies all others, along that tree. These
// operations then end with a RankError that names the dead rank: every operation with that rank;
// on communicators that contain it, every collective; and on these communicators every receive or
// probe from AnySource for which no message has arrived. The other ranks can continue to
// communicate, and can use communicators without the dead rank. They can receive from AnySource
// after Comm.AckFailed. Abort ends all ranks' operations with an AbortError.
//
// To survive the death of a rank, a job does the following (see the example of
// Comm.AckFailed):
//
//   - The user starts it with bobnet run --continue or bobnet lab --continue. Without
//     the flag, and under hydra's mpiexec, the launcher kills all ranks when one fails.
//   - Each surviving rank calls AckFailed when an operation returns a RankError, and
//     gives the work of the dead rank to others.
//   - Each surviving rank calls Finalize, which returns nil if that rank has
//     acknowledged all deaths. Any other rank gets the RankError.
package mplite

// Notes for maintainers, which go doc does not print.
//
// # Eager and rendezvous
//
// Messages up to the receiver's Config.EagerSize are copied twice: into a registered bounce buffer,
// so that Send returns at once, and from the receive buffer to the user's. So a small message is
// one frame and two short copies. Longer messages are announced. The receiver registers the user's
// buffer, and the sender writes into it by RDMA straight from its own memory: only the network
// copies the data. If the receive is posted early, this overlaps with computation.
//
// Each receive buffer is a credit. Senders spend credits. Receivers return them with their own
// messages, or in a separate message when half of the credits are owed. Unexpected messages stay in
// their receive buffers, without a copy and without returning the credit, until they hold half of
// the buffers. Then they move to a pool of Config.SpillLimit bytes, so that a message with another
// tag still gets through. When the pool is full, credits are withheld and the sender waits. So peers
// cannot make the memory grow without bound. Messages of the protocol itself have separate credits
// (see peer.go), so that a flood cannot block a rendezvous. Medium messages are written to landing
// memory (landing.go). A buffer is cleared for one rank: another rank that learns its address cannot
// write there.
//
// # Decisions
//
// One completion queue serves both queues of all connections, because a goroutine that waits for a send must
// also notice incoming messages, and vipl waits on one queue. Each send completion costs an entry, but it is
// taken while the answer is in flight. A rendezvous ends with the immediate data of the last write instead of
// a further message. Header fields have a fixed byte order, and payloads have the sender's, so only payloads
// from foreign machines are swapped. In a small job Init connects all ranks with each other: its error names
// missing ranks, and no first message is slow. In a larger job the cost of this would grow with the square of
// the number of ranks, so ranks connect on first use (onuse.go).
