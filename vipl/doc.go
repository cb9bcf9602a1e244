// Package vipl is Bobnet's VI provider: the calls of the VI Provider Library
// 1.0 under Go names, over raw Ethernet frames.
//
// A program opens a NIC, creates virtual interfaces (VIs) on it, connects each
// to one VI of another program, registers memory, and posts descriptors that
// name parts of it. The provider moves the data between the two memories: a
// send gathers from the sender's registered memory straight into frames, a
// receive is copied once, from the ring into the posted buffers.
//
//	nic, err := vipl.Open(ctx, &vipl.Config{Interface: "eth0"})
//	buf, mem, err := nic.AllocMem(4096, nil)
//	vi, err := nic.CreateVI(nil, nil, nil)
//	err = vi.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: mem}}})
//	err = vi.Connect(ctx, serverAddr, nil)
//	d, err := vi.RecvWait(ctx)
//
// # Who may call what
//
// A NIC, its VIs, completion queues and listeners may be shared between
// goroutines. A Descriptor belongs to the provider from the moment it is
// posted until a Done or Wait call returns it; so does the memory that it
// names: a receive may write to it at any time, a send reads it at any time.
//
// # How VIs meet
//
// Without configuration a peer's address decides which way the frames take. To a
// VI of the same NIC they pass through memory of the process; the two connect by
// Listen and Connect, not as peers. To other NICs at the same interface (of the
// driver udp: IP address), or of the driver shm, they pass through memory that two
// NICs share, whether these are of one process or of two.
// All others are reached over the link: other hosts, and of this one its other
// interfaces and namespaces. Config.WireOnly leaves out the ways within the host;
// then nobody at the NIC's own MAC is reached. Simulated NICs have only the first.
//
// # Order
//
// Descriptors of one queue complete in the order they were posted. On the
// reliable levels messages arrive exactly once and in order; an RDMA write is
// in place before any message sent after it completes at the receiver. On the
// unreliable level a message arrives at most once or not at all, in order.
//
// An RDMA read returns what all writes before it have left. What is posted
// behind it may overtake it, unless it has Descriptor.Fence set.
//
// # Progress
//
// Whoever waits drives the protocol: SendWait, RecvWait, CQ.Wait and the Done
// calls poll the link themselves. When nobody waits, a service goroutine takes
// over within a few milliseconds, so that acknowledgements, retransmissions,
// RDMA and connection requests go on while the application computes.
//
// # Errors
//
// Calls return the VIPL 1.0 codes as sentinel errors (ErrNotDone, ErrTimeout,
// ErrInvalidState, ...), wrapped with what was asked and what was found; test
// with errors.Is. A descriptor that completed in error is returned together
// with ErrDescriptor and says why in its Status.
//
// # Handlers
//
// Programs that do not want to wait have handlers: VI.SendNotify, VI.RecvNotify
// and CQ.Notify for the next completion, NIC.SetErrorHandler for what no call
// returns. They run on the goroutine that drives the engine, one at a time, and
// may call everything (VI.SendNotify says more).
//
// # Names
//
// Services find each other by NIC.Advertise and NIC.Lookup, hosts have names by
// the ethers file and by asking the segment (NIC.HostByName, NIC.HostByAddr),
// and NIC.Discover finds every NIC there is.
//
// # Strangers
//
// Whoever can send to the segment can send in the name of others. Who does not hear a
// connection's frames as well has to guess at least 52 bits for any effect on it. A NIC
// answers such frames at a bounded rate, by at most three times their bytes, and a
// listener keeps nothing of requests whose sender has not proven its address. Who hears
// the frames, on the path between two hosts for example, can do everything, unless there is
// a key (Config.Key): then frames between hosts are encrypted and authenticated (package
// transport/seal, docs/security.md).
//
// # VIPL
//
// The calls of VIPL 1.0 and, below them, what Giganet added. The source of a
// rule is a section of the VIPL reference; V says that it was verified in a
// header, a provider's documentation or a paper of the time, M that it rests on
// memory of the specification. Descriptors are neither linked by the caller nor
// aligned, so CodePostDesc has no causes but those that PostSend and PostRecv
// return.
//
//	VIPL call                     Go name               rule                                                                      source
//	VipOpenNic                    Open                  opens a NIC by the name of its interface                                  2.1 V
//	VipCloseNic                   NIC.Close             regions, descriptors and handlers go with it; peers are told              2.1 V
//	VipQueryNic                   NIC.Query             versions, limits and abilities of the NIC                                 11 V
//	VipCreateVi                   NIC.CreateVI          an idle VI; each queue may be bound to a CQ                               2.2 V
//	VipDestroyVi                  VI.Destroy            wants an idle VI with empty queues, else ErrInvalidState or ErrResource   2.2 M
//	VipQueryVi                    VI.Query              state, attributes, whether the queues are empty                           2.2 V
//	VipSetViAttributes            VI.SetAttributes      changes attributes, the tag too                                           11 V
//	VipConnectWait                Listener.Wait         the next request for the listener's port, or its discriminator            8 V
//	VipConnectAccept              Request.Accept        wants an idle VI and equal attributes; if not, the requester is not told  8 V
//	VipConnectReject              Request.Reject        the requester gets ErrReject                                              8 V
//	VipConnectRequest             VI.ConnectFor         by discriminator; VI.Connect by port: ErrNoMatch, ErrReject, ErrTimeout   8 V
//	VipDisconnect                 VI.Disconnect         from any state back to Idle; the peer gets CodeConnLost                   8 V
//	VipConnectPeerRequest         VI.ConnectPeerStart   addresses and discriminator must match, within Attributes.ConnectTimeout  2.4 M
//	VipConnectPeerDone            VI.ConnectPeerDone    ErrNotDone while it is pending; then VI.RemoteAttributes                  2.4 M
//	VipConnectPeerWait            VI.ConnectPeerWait    blocks until there is an outcome; then VI.RemoteAttributes                2.4 M
//	VipCreatePtag                 NIC.CreatePtag        VI and region need equal tags for every access; at most MaxPtags          11 V
//	VipDestroyPtag                NIC.DestroyPtag       not while a VI or a region carries it                                     11 M
//	VipRegisterMem                NIC.RegisterMem       makes a region known; AllocMem allocates it too                           2.5 V
//	VipDeregisterMem              NIC.DeregisterMem     not while posted descriptors refer to it                                  2.5 M
//	VipQueryMem                   NIC.QueryMem          attributes and place of a region                                          2.5 V
//	VipSetMemAttributes           NIC.SetMemAttributes  changes attributes, the tag too                                           11 V
//	VipPostSend                   VI.PostSend           copies nothing; Idle and Error flush at once                              4 M
//	VipPostRecv                   VI.PostRecv           one message each, which may be shorter; in every state                    4 M
//	VipSendDone                   VI.SendDone           looks at the head only: ErrQueueEmpty, ErrDescriptor, ErrNotDone          9 V
//	VipRecvDone                   VI.RecvDone           the same                                                                  9 V
//	VipSendWait                   VI.SendWait           blocks; the context is the time limit                                     2.6 M
//	VipRecvWait                   VI.RecvWait           the same                                                                  2.6 M
//	VipSendNotify                 VI.SendNotify         one-shot, in order; not on a queue bound to a CQ (M)                      9 V
//	VipRecvNotify                 VI.RecvNotify         the same                                                                  9 V
//	VipCreateCQ                   NIC.CreateCQ          a fixed number of entries; at most MaxCQs of them                         2.7 V
//	VipDestroyCQ                  CQ.Close              cancels handlers; not while VIs are bound to it                           2.7 V
//	VipResizeCQ                   CQ.Resize             entries stay, or ErrResource                                              2.7 V
//	VipCQDone                     CQ.Done               names VI and queue; the descriptor is taken from the queue                9 V
//	VipCQWait                     CQ.Wait               the same, blocking                                                        2.7 V
//	VipCQNotify                   CQ.Notify             one-shot, in order                                                        9 V
//	VipErrorCallback              NIC.SetErrorHandler   an AsyncError for each of VIPL's codes; nil: the log                      7 V
//	VipQuerySystemManagementInfo  NIC.Discover          autodiscovery of the segment's NICs                                       2.8 V
//	VipNSInit                     NIC.StartNames        Open has done it                                                          2.8 V
//	VipNSShutdown                 NIC.StopNames         names are neither asked nor answered                                      2.8 V
//	VipNSGetHostByName            NIC.HostByName        the ethers file, then the segment; the index picks one of several         2.8 M
//	VipNSGetHostByAddr            NIC.HostByAddr        the same the other way                                                    2.8 V
//	VipGetUserData                VI.Context            a field of the caller's own                                               2.8 V
//	VipSetUserData                VI.Context            the same                                                                  2.8 V
//	VipAddTagCQ                   VI.Context            a completion is told from others by its VI and Descriptor.Context         2.8 M
//	VipRemoveTagCQ                VI.Context            the same                                                                  2.8 M
//	VipPostDeferredSends          VI.Flush              sends what was gathered for a fuller frame                                2.8 M
//
// # Where this departs from VIPL 1.0
//
// Names and values:
//   - Success is nil and every other code a sentinel error; the codes have no numbers.
//     A call on an object that was closed returns ErrClosed, an ErrInvalidState.
//   - Time limits are contexts, not milliseconds. Where VIPL refuses a limit of 0
//     (VipConnectRequest), a context that has ended is ErrTimeout. Connecting without a
//     deadline takes Attributes.ConnectTimeout at the most.
//   - Open takes the name or the MAC of an interface, or nothing if only one will do.
//     It starts the name service, too.
//   - A zero Attributes field means the default. QueueDepth is of each VI.
//     ReadDepth, WholeCRC, PeerTimeout and ConnectTimeout are added.
//   - Tag 0 exists without CreatePtag.
//
// Closing:
//   - VI.Close is added. It works in every state and with descriptors posted: it
//     disconnects, and the descriptors complete flushed and go back to the caller without a
//     Done call.
//   - NIC.Close closes all that belongs to the NIC, and takes up to a quarter of a
//     second until peers know.
//
// Connecting:
//   - A VI and a listener have a port of their own each, which no call gives a local
//     address for. Listen and Connect go by port, which VIPL has not; ListenFor and
//     ConnectFor go by VIPL's address: that of a NIC and a discriminator.
//   - A listener has a backlog: up to 256 requests wait for Listener.Wait, and further
//     ones are repeated by their VIs. In VIPL a request that meets no VipConnectWait is
//     VIP_NO_MATCH; here that means that there is no listener.
//   - A request carries private data, and a rejection text.
//   - Connecting as peers is for two NICs: of two VIs of one NIC, one listens.
//   - A connection is made when frames of full size have passed; if they do not pass,
//     connecting fails with ErrInvalidMTU.
//   - A NIC has as many VIs and listeners as ports: 1023 by default, MaxVIs at the most
//     and only with a wider Config.Ports (NICAttributes.MaxVI).
//   - Programs of other users of the same host are not let in without Config.AnyUser.
//
// Descriptors and completions:
//   - Descriptors are Go values: not linked, not aligned, without a memory handle of
//     their own. What PostSend and PostRecv refuse they return as an error, besides
//     telling it asynchronously.
//   - A Done call on an empty queue returns ErrQueueEmpty, an ErrDescriptor (as VI-GM
//     does). After a Disconnect the Wait calls say so.
//   - A completion queue that is full loses the entry, not the descriptor, and tells
//     CodeVIOverrun, because VIPL has no code of its own for that.
//   - RDMA writes may be Descriptor.Unordered. RDMA reads carry no immediate data.
//
// Management:
//   - Discover and the look-ups of hosts and names ask the segment and take time; they
//     have contexts. Numbers of hops are not told, because there are none.
//   - VI.Context stands for Giganet's calls on user data and tags.
//
// Order within a write is added, too: of the data of one frame no aligned word of 4 or 8
// bytes is seen half written, and the last one changes last. So a program may look at
// memory for what is written there, by atomic loads.
//
// Added: Listener.Bind has requests for connections announced by a completion queue,
// NIC.Ended tells those who wait elsewhere that the NIC is of no use any more,
// NIC.Advertise and NIC.Lookup are names of services, the Start calls begin what others
// wait for, AllocMem gives memory that is registered, Descriptor.AckNow asks for an
// acknowledgement at once, NIC.LookupAll finds all of a name,
// NIC.Obstacle says what is in the way of frames, and Config.Key and NIC.SealStats are for
// sealed frames.
//
// An interface that goes down may come back: connections wait for it until their
// PeerTimeout. An interface that is deleted, moved to another network namespace or given
// another MAC ends the NIC: all that wait return ErrLink within a second, in the first two
// cases with transport.ErrGone. An interface that is created again under the same name is
// another one: open another NIC.
package vipl
