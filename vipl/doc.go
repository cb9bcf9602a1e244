// Package vipl is Bobnet's VI provider: the calls of the VI Provider Library
// 1.0 under Go names, over raw Ethernet frames.
//
// A program opens a NIC and creates virtual interfaces (VIs) on it. It connects each VI to one VI
// of another program, registers memory, and posts descriptors that name parts of that memory. The
// provider copies the data from one memory to the other. A send gathers from the sender's
// registered memory straight into frames. A receive is copied once, from the ring into the posted
// buffers.
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
// A NIC, its VIs, completion queues and listeners may be shared between goroutines. A Descriptor
// and the memory that it names belong to the provider from the moment it is posted until a Done or
// Wait call returns it. A receive may write to the memory at any time, and a send may read it at
// any time.
//
// # Paths
//
// The peer's address selects the path of the frames:
//
//   - A VI of the same NIC: through memory of the process. The two VIs connect by
//     Listen and Connect, not as peers.
//   - Another NIC on the same interface (for driver udp: the same IP address), or of
//     driver shm: through memory that the two NICs share, in one process or two.
//   - All other addresses: over the link. These are other hosts, and other interfaces
//     and namespaces of this host.
//
// Config.WireOnly disables shared memory between NICs. Addresses with the NIC's own MAC
// are then unreachable. Simulated NICs have no shared memory.
//
// # Order
//
// Descriptors of one queue complete in the order in which they were posted. On the
// reliable levels messages arrive exactly once and in order. An RDMA write is in
// place before any message sent after it completes at the receiver. On the unreliable
// level messages arrive at most once, in order.
//
// An RDMA read returns what all earlier writes have left. Descriptors posted after a
// read may overtake it, unless they set Descriptor.Fence.
//
// # Progress
//
// Goroutines that wait drive the protocol: SendWait, RecvWait, CQ.Wait and the Done
// calls poll the link themselves. If no goroutine waits, a service goroutine takes over
// within a few milliseconds. Acknowledgements, retransmissions, RDMA and connection
// requests therefore continue while the program computes.
//
// # Errors
//
// Calls return the VIPL 1.0 codes as sentinel errors (ErrNotDone, ErrTimeout,
// ErrInvalidState, ...), wrapped with the request and the cause; test them with errors.Is.
// A descriptor that completes in error is returned together with ErrDescriptor; its
// Status has the reason. If the connection has ended, VI.Err says why, and so do the errors
// of SendWait and RecvWait.
//
// # Handlers
//
// A program can register handlers instead of waiting: VI.SendNotify, VI.RecvNotify
// and CQ.Notify for the next completion, NIC.SetErrorHandler for asynchronous errors.
// Handlers run one at a time on the goroutine that drives the engine. They may call
// every function of this package (see VI.SendNotify).
//
// # Names
//
// NIC.Advertise and NIC.Lookup publish and find services by name. NIC.HostByName and
// NIC.HostByAddr look up hosts, in the ethers file and by broadcast. NIC.Discover finds
// every NIC on the segment.
//
// # Security
//
// Any host on the segment can spoof source addresses. An off-path attacker must guess at least 52
// bits to affect a connection. A NIC answers frames from strangers at a bounded rate, with at most
// three times their bytes. A listener stores nothing for a request before its sender has proven its
// address. An attacker that observes the frames, on the path between two hosts for example, has
// full control over them, unless there is a key (Config.Key): then frames between hosts are
// encrypted and authenticated (package transport/seal, docs/security.md).
//
// # VIPL
//
// The calls of VIPL 1.0, and after them Giganet's additions. The last column says how far
// the rule was checked: V against a header, a provider's documentation or a paper of the
// time, M not checked. The number is a section of the notes that the authors worked from.
// Descriptors are neither linked by the caller nor aligned, so CodePostDesc has only the
// causes that PostSend and PostRecv return.
//
//	VIPL call                     Go name               rule                                                                      source
//	VipOpenNic                    Open                  opens a NIC by the name of its interface                                  2.1 V
//	VipCloseNic                   NIC.Close             regions, descriptors and handlers go with it; peers are notified          2.1 V
//	VipQueryNic                   NIC.Query             versions, limits and abilities of the NIC                                 11 V
//	VipCreateVi                   NIC.CreateVI          an idle VI; each queue may be bound to a CQ                               2.2 V
//	VipDestroyVi                  VI.Destroy            wants an idle VI with empty queues, else ErrInvalidState or ErrResource   2.2 M
//	VipQueryVi                    VI.Query              state, attributes, whether the queues are empty                           2.2 V
//	VipSetViAttributes            VI.SetAttributes      changes attributes, the tag too                                           11 V
//	VipConnectWait                Listener.Wait         the next request for the listener's port, or its discriminator            8 V
//	VipConnectAccept              Request.Accept        wants an idle VI and equal attributes; if not, the requester waits on     8 V
//	VipConnectReject              Request.Reject        the requester gets ErrReject                                              8 V
//	VipConnectRequest             VI.ConnectFor         by discriminator; VI.Connect by port: ErrNoMatch, ErrReject, ErrTimeout   8 V
//	VipDisconnect                 VI.Disconnect         from any state back to Idle; the peer gets CodeConnLost                   8 V
//	VipConnectPeerRequest         VI.ConnectPeerStart   addresses and discriminator must match, within Attributes.ConnectTimeout  2.4 M
//	VipConnectPeerDone            VI.ConnectPeerDone    ErrNotDone while it is pending; then VI.RemoteAttributes                  2.4 M
//	VipConnectPeerWait            VI.ConnectPeerWait    blocks until there is an outcome; then VI.RemoteAttributes                2.4 M
//	VipCreatePtag                 NIC.CreatePtag        VI and region need equal tags for every access; at most NICAttributes.MaxPtags          11 V
//	VipDestroyPtag                NIC.DestroyPtag       not while a VI or a region has the tag                                    11 M
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
//	VipCreateCQ                   NIC.CreateCQ          a fixed number of entries; at most NICAttributes.MaxCQ of them                         2.7 V
//	VipDestroyCQ                  CQ.Close              cancels handlers; not while VIs are bound to it                           2.7 V
//	VipResizeCQ                   CQ.Resize             entries stay, or ErrResource                                              2.7 V
//	VipCQDone                     CQ.Done               names VI and queue; the descriptor is taken from the queue                9 V
//	VipCQWait                     CQ.Wait               the same, blocking                                                        2.7 V
//	VipCQNotify                   CQ.Notify             one-shot, in order                                                        9 V
//	VipErrorCallback              NIC.SetErrorHandler   an AsyncError for each of VIPL's codes; nil: the log                      7 V
//	VipQuerySystemManagementInfo  NIC.Discover          autodiscovery of the segment's NICs                                       2.8 V
//	VipNSInit                     NIC.StartNames        Open already starts them                                                  2.8 V
//	VipNSShutdown                 NIC.StopNames         the NIC neither sends nor answers queries for names                       2.8 V
//	VipNSGetHostByName            NIC.HostByName        the ethers file, then the segment; the index picks one of several         2.8 M
//	VipNSGetHostByAddr            NIC.HostByAddr        the reverse of HostByName                                                 2.8 V
//	VipGetUserData                VI.Context            a field of the caller's own                                               2.8 V
//	VipSetUserData                VI.Context            the same                                                                  2.8 V
//	VipAddTagCQ                   VI.Context            its VI and Descriptor.Context identify a completion                       2.8 M
//	VipRemoveTagCQ                VI.Context            the same                                                                  2.8 M
//	VipPostDeferredSends          VI.Flush              sends the messages that wait for a fuller frame                           2.8 M
//
// # Differences from VIPL 1.0
//
// Names and values:
//   - Success is nil. Every other code is a sentinel error; the codes have no numbers. A
//     call on a closed object returns ErrClosed, which is an ErrInvalidState.
//   - Time limits are contexts, not milliseconds. Where VIPL rejects a limit of 0
//     (VipConnectRequest), a context that has ended gives ErrTimeout. Connecting
//     without a deadline takes at most Attributes.ConnectTimeout.
//   - Open takes the name or the MAC of an interface, or nothing if only one interface is
//     usable. It also starts the name service.
//   - A zero Attributes field means the default. QueueDepth applies to each VI.
//     ReadDepth, WholeCRC, PeerTimeout and ConnectTimeout are additions.
//   - Tag 0 exists without CreatePtag.
//
// Closing:
//   - VI.Close is an addition. It works in every state and with descriptors posted:
//     it disconnects the VI, and the descriptors complete flushed and return to the
//     caller without a Done call.
//   - NIC.Close closes all objects of the NIC. It takes up to a quarter of a
//     second to notify peers.
//
// Connecting:
//   - Each VI and each listener has a port, and calls take no local address. Listen and
//     Connect use ports, which VIPL does not have. ListenFor and ConnectFor use VIPL's
//     addresses: a NIC and a discriminator.
//   - A listener has a backlog: up to 256 requests wait for Listener.Wait. If the backlog
//     is full, the requester's VI repeats its request. In VIPL a request fails with
//     VIP_NO_MATCH if no call of VipConnectWait is pending; here ErrNoMatch means that no
//     listener exists.
//   - A request carries private data, and a rejection carries text.
//   - Connecting as peers needs two NICs. To connect two VIs of the same NIC, one must
//     listen.
//   - A connection is established after frames of full size have passed. If they do
//     not pass, connecting fails with ErrInvalidMTU.
//   - A NIC has as many VIs and listeners as ports: 1023 by default, and at most 16384
//     with a wider Config.Ports (NICAttributes.MaxVI).
//   - Programs of other users of the same host are refused without Config.AnyUser.
//
// Descriptors and completions:
//   - Descriptors are Go values: not linked, not aligned, without a memory handle of
//     their own. PostSend and PostRecv return an error for a descriptor that they refuse,
//     in addition to the asynchronous error.
//   - A Done call on an empty queue returns ErrQueueEmpty, which is an ErrDescriptor (as in
//     VI-GM). After a Disconnect the Wait calls return it, too.
//   - A full completion queue loses the entry, not the descriptor, and reports
//     CodeVIOverrun, because VIPL has no code for that.
//   - RDMA writes may be Descriptor.Unordered. RDMA reads carry no immediate data.
//
// Management:
//   - Discover and the look-ups of hosts and names send broadcasts and take time; they
//     take contexts. They report no number of hops.
//   - VI.Context replaces Giganet's calls for user data and tags.
//
// Order within a write is an addition. On the reliable levels no reader sees an aligned word of 4 or
// 8 bytes half written. Unless the write is Unordered, its last word changes last. A program may
// therefore watch the last word with atomic loads. On the unreliable level this holds for the data of
// one frame.
//
// Further additions: Listener.Bind reports connection requests to a completion
// queue. NIC.Ended is a channel that closes when the NIC is closed or its link has failed.
// NIC.Advertise and NIC.Lookup are names of services. The Start calls begin an operation
// that another call waits for. AllocMem returns registered memory. Descriptor.AckNow
// requests an acknowledgement for a program that waits. NIC.LookupAll finds all owners of a name.
// NIC.Obstacle reports what blocks frames. Config.Key and NIC.SealStats are for
// encrypted frames.
//
// # Interfaces that go away
//
// Connections survive an interface that goes down and comes back within their
// PeerTimeout. An interface that is deleted, moved to another network namespace or
// given another MAC ends the NIC: all waiting calls return ErrLink within a second,
// in the first two cases with transport.ErrGone. An interface that is created again
// under the same name is a new one: open another NIC.
package vipl
