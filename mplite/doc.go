// Package mplite passes messages between the ranks of a parallel program: the
// MP_Lite subset of MPI under Go names, over vipl's virtual interfaces.
//
// A job is a number of processes, the ranks, each of which calls Init, gets a
// communicator of all of them, talks through it, and calls Finalize:
//
//	c, err := mplite.Init(ctx, nil) // rank, size and job name from the environment
//	if err != nil { ... }
//	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
//	_, err = mplite.Sendrecv(ctx, c, right, next, 0, left, prev, 0)
//	err = mplite.Allreduce(ctx, c, nil, residual, mplite.Max[float64]())
//	err = c.Finalize(ctx)
//
// Open and Close are Init and Finalize under the names that all packages of Bobnet have;
// Close needs no context.
//
// Methods of Comm move bytes; functions of the same names move elements of a
// type and make byte orders right at the receiver (see Elements). Every blocking call
// takes a context, which ends it, with one exception (see Progress). Ranks find
// each other on the segment by the job's name; nobody types addresses.
//
// # Matching
//
// A receive names a source and a tag, or AnySource and AnyTag. Messages with
// the same source, tag and communicator are received in the order in which
// they were sent; a wildcard takes the oldest message that has arrived. A
// message may be shorter than the receive (Status.Count); a longer one fills
// the buffer and gives a TruncateError, which disturbs no later message.
// Messages of different communicators never match each other, and those of
// collectives have a context that no user tag reaches.
//
// Sends to None and receives from it end at once, so that a program need not ask
// where the edge of its grid is. Where several goroutines receive what they have
// probed, Mprobe keeps them apart.
//
// # Elements
//
// An element is a number, a boolean, or an array or struct of elements: nothing
// in it points anywhere. Each message says what its elements are, and a receive of
// others is refused with ErrType: its buffer stays as it was, the message is
// gone, the sender does not notice. The rules are:
//
//   - Numbers match when their kind (signed, unsigned, floating-point, complex,
//     boolean) and size agree. int is an int64 where words have 64 bits.
//   - Bytes, which the methods of Comm and a []uint8 are, match everything and
//     arrive unchanged, as MPI_BYTE and MPI_PACKED do.
//   - An array or struct that is nothing but numbers of one kind, without padding,
//     counts as that many of them: a struct of three float64 matches float64.
//   - Any other struct matches one with the same numbers at the same offsets and
//     of the same size. It travels as it lies in memory, padding included. Padding,
//     and fields named _, mean nothing: it is undefined what they hold at the
//     receiver. Where compilers place fields differently, as on machines whose
//     words differ, the structs do not match.
//
// Elements that do not lie in a row, as a column of a matrix, are a Vector.
//
// A message without elements matches everything. One need not hold whole
// elements; Elements counts the whole ones.
//
// # Eager and rendezvous
//
// Messages up to the receiver's Config.EagerSize are copied into a registered
// bounce buffer, so that Send returns at once, and from the receive buffer to
// the user's, so that a small message is one frame and two copies of little.
// Longer ones are announced; the receiver registers the user's buffer and the
// sender writes into it by RDMA, straight from its own memory: no copy but the
// network's. A receive that is posted early makes that overlap with work.
//
// Each receive buffer is a credit. Senders spend credits, receivers return
// them on the back of their own messages, or in a message of their own when
// half are owed. Unexpected messages stay in their receive buffers, without a
// copy and without returning the credit, until they hold half of them; then
// they move to a pool of Config.SpillLimit bytes, so that a message with
// another tag still gets through; when that is full, credits stay away and the
// sender waits. Memory is bounded whatever peers do, and messages that make
// the protocol itself go round have credits of their own (see credits.go), so
// that a flood cannot block a rendezvous. Buffers are cleared for one rank:
// another one that knows where they are cannot write there.
//
// # Progress
//
// Whoever waits drives the protocol, as do Test, Iprobe and every call that
// finds no credit. A matching receive is only noticed in such a call, but
// data, acknowledgements and RDMA move meanwhile: vipl sees to that. Any
// number of goroutines may call at the same time; one waits on the completion
// queue, the others for it.
//
// The exception: once a receive has met a message beyond the eager size, its
// buffer is lent to the sender, which may write there at any time, and no
// context ends the receive. It ends with the message, or when the sender has
// withdrawn that or is dead. The sender's program must call this package for
// the first two: until then a Recv, Sendrecv or collective waits. The Wait of
// an Irecv does end with its context, and the request stays in use.
//
// # Collectives
//
// The algorithm depends on the number of ranks n and the size only, so results
// of floating-point reductions are the same bits on all ranks and in every
// run. Operands keep the order of the ranks, except where the table says
// commutative; operations that are not commutative then use the one above.
//
//	Barrier         dissemination
//	Bcast           < 128 KiB or n < 4   binomial tree
//	                else                 scatter and ring allgather (van de Geijn)
//	Reduce          < 16 KiB, n < 3, or fewer elements than ranks
//	                                     binomial tree (commutative: rooted at root, else at 0)
//	                else                 recursive halving, gather
//	Allreduce       < 16 KiB, or fewer elements than ranks
//	                                     recursive doubling
//	                >= 256 KiB, n no power of two, commutative
//	                                     ring reduce-scatter and allgather
//	                else                 recursive halving and doubling (Rabenseifner)
//	Gather, Scatter parts <= 4 KiB       binomial tree
//	                else, and the v forms  direct
//	Allgather       <= 16 KiB in all     Bruck
//	                else, and the v form   ring
//	Alltoall        parts <= 256 B, n >= 8  Bruck
//	                else, and the v form   pairwise exchange
//	ReduceScatter   >= 16 KiB, commutative  pairwise exchange
//	                else                 allreduce, own part kept
//	Scan, Exscan    recursive doubling
//
// Each has a nonblocking form, by the name with an I before it, whose Request is
// waited for like that of a send or receive, beside these if need be. It runs
// the same algorithm, carried out step by step by whoever makes progress: a call
// of this package, for whatever purpose. Any number may be under way on a
// communicator, beside blocking ones, and end in any order. To start one
// allocates; the buffers belong to the library until it has completed. A rank
// may meet the nonblocking form of others with the blocking one. No context ends
// what has been started: that of Wait ends the waiting.
//
// Where MPI has MPI_IN_PLACE, a nil slice stands for it: the rank's part is where
// the result goes. Where MPI has displacements, they are optional last arguments.
//
// All ranks of a communicator call its collectives, of both forms, in the same
// order, and one goroutine at a time calls them. A collective that ends in an error
// leaves the buffers undefined; when that was the end of a context, so is the
// communicator's further use.
//
// # Calls that do not fit
//
// The messages of a collective carry the signature of the call: its number on the
// communicator, function, root, operation, type of elements, and the length where
// that has to be the same everywhere. When those of two ranks differ, or a part
// has another length than its receiver expects, all ranks get a MismatchError that
// names both calls, by the call of this number or, if they have left that, by the
// next; the communicator is of no use for collectives from then on. Ranks that all
// wait for each other find it out too: who waits for 100 ms asks. Arguments that
// are invalid by themselves end the call at the other ranks likewise; if none of
// them has left it by then, the communicator can still be used.
//
// # Failure
//
// A rank that ends without Finalize, does not answer for Config.PeerTimeout, or
// sends what no rank may, is dead. The first to notice tells all others. Every
// operation with it, every receive or probe from AnySource on a communicator it is
// in that has no message yet, and every collective there ends with a RankError that
// names it. The living can go on talking, from AnySource after Comm.AckFailed, and
// use communicators that it was not in. Abort ends all ranks' operations with an
// AbortError.
//
// A job that is to survive the death of a rank does the following, as the example of
// Comm.AckFailed shows:
//
//   - It is started with bobnet run --continue or bobnet lab --continue. Without that
//     flag, and under hydra's mpiexec, the launcher kills all ranks when one fails.
//   - Each surviving rank calls AckFailed when an operation returns a RankError, and
//     gives the work of the dead rank to others.
//   - Each surviving rank calls Finalize, which returns nil if that rank has
//     acknowledged all deaths. A rank that has not gets the RankError.
//
// # Decisions
//
// One completion queue serves both queues of all connections: waiting for a
// send must also notice what others send, and vipl waits on one queue. Send
// completions cost an entry each, but it is taken while the answer is under
// way. Rendezvous end by the immediate data of the last write and not by a
// further message. Header fields have a fixed byte order and payloads the
// sender's, so only foreign payloads pay for swapping. The mesh is complete
// from Init on: an error then names who is missing, and no first message is
// slow.
package mplite
