// Package endpoint implements active messages between endpoints that form virtual networks. The
// interface is AM-II, of "Virtual Network Transport Protocols for Myrinet", built over VIA as
// described in "Split-C for the New Millennium" (AMVIA).
//
// A message names a handler: a function of the receiver that gets the message's arguments
// and data, and may answer with one reply. A program opens a node, creates bundles on it
// and endpoints in the bundles, publishes the endpoints' names, and maps the names of other
// endpoints:
//
//	node, err := endpoint.Open(ctx, &endpoint.Config{Interface: "eth0"})
//	bundle, err := node.NewBundle(endpoint.Sequential)
//	ep, err := bundle.NewEndpoint()
//	ep.SetTag(tag)
//	ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) { ... })
//	err = ep.Map(0, serverName, serverTag)
//	err = ep.Request(ctx, 0, hEcho, 1, 2, 3)
//	_, err = bundle.WaitPoll(ctx) // runs hReply
//
// Call and Serve are the short form: a call with typed arguments that waits for its result.
//
// # Messages
//
//   - A short message has up to 16 arguments of 32 bits.
//   - A medium message has a payload in addition, which the handler reads in the receive
//     buffer.
//   - A bulk message places data in the receiver's segment, at an offset that the sender
//     chooses, before the handler runs. Get fetches data from there.
//
// A reply may be of any of these kinds. Requests to one destination are handled in the
// order of sending, with two exceptions: a long bulk request counts from the moment when its
// data has arrived, and returned requests are omitted. Replies are handled in the order of
// arrival.
//
// Bulk data longer than a medium message costs one round trip more: the receiver first checks the message and names the
// place, then the sender writes by RDMA. A refused message therefore has written nothing, unless its tag or handler
// changed in between.
//
// # Progress
//
// Handlers run only on goroutines that call Poll, WaitPoll, a request or a call. A program
// that waits for requests must therefore poll. Replies never wait and never poll. A request
// handler must not block, and may only reply, or reply later (Token.Defer).
//
// A message is sent at once if no other is in flight. Back-to-back requests are batched:
// they are sent when the batch is full, when earlier requests are acknowledged, or when the
// caller polls or waits. If the program then computes for a long time, call Poll first to
// flush the batch.
//
// # Errors
//
// A message that cannot be delivered, or that is refused, returns to its sender once, with
// a Reason, and runs the handler of SetReturnHandler. Without such a handler a returned
// request ends the process, as AM-II specifies: set one, or use Call, which returns an
// error instead. A returned reply, whose client has ended or accepts no replies, is counted
// and logged (but see Config.ExitForReplies).
//
// A request to an index that is not mapped is also returned, and so ends a process without
// a ReturnHandler. A request that returns for ReasonUnreachable or ReasonBadEndpoint may
// have been handled, because the connection may break before the answer arrives. Requests
// that wait for a credit when the connection breaks return after the requests in flight,
// in the order of sending.
//
// The functions return the codes of AM-II as sentinel errors.
//
// # Virtual networks
//
// Endpoints that map each other and know each other's tags form a virtual network. An
// endpoint accepts messages that carry its tag. Virtual networks do not compete for
// buffers: each connection has its own, and Poll serves connections in turn.
//
// # AM-II
//
// The calls of AM-II and their Go names. The last column says how far the rule was checked:
// V against a source of the time, M not checked. The number is a section of the notes that
// the authors worked from.
//
//	AM-II call                 Go name                    rule                                                     source
//	AM_Init                    Open                       a node on one NIC; a program may have several            3 V
//	AM_Terminate               Node.Close                 frees all bundles                                        3 V
//	AM_AllocateBundle          Node.NewBundle             Sequential or Parallel                                   3 V
//	AM_FreeBundle              Bundle.Free                frees its endpoints too                                  3 V
//	AM_AllocateEndpoint        Bundle.NewEndpoint         tag TagNone, no handlers                                 5 V
//	AM_FreeEndpoint            Endpoint.Free              unanswered requests return to senders                    3 V
//	AM_MoveEndpoint            Endpoint.Move              name, connections and waiting messages go with it        8 V
//	AM_SetSeg, AM_GetSeg       Endpoint.SetSegment        ErrInUse while a bulk message or long get uses it        3 V
//	AM_MaxSegLength            -                          no limit
//	AM_SetTag, AM_GetTag       Endpoint.SetTag            decides about all messages that were not handled         8 V
//	AM_Map                     Endpoint.Map               connects when the first message is sent                  8 V
//	AM_MapAny                  Endpoint.MapAny            the lowest free index                                    3 V
//	AM_UnMap                   Endpoint.Unmap             requests in flight end as usual                          8 V
//	AM_GetTranslationName ...  Endpoint.Translation       name, tag, and whether it is in use                      3 V
//	AM_SetNumTranslations      Endpoint.SetNumTranslations  never cuts off an entry in use                         8 V
//	AM_GetNumTranslations      Endpoint.NumTranslations   at least 256                                             8 V
//	AM_MaxNumTranslations      MaxTranslations
//	AM_MaxShort                MaxShort                   arguments                                                2 V
//	AM_MaxMedium               Config.MaxMedium           at most 64 KiB                                           2 V
//	AM_MaxLong                 MaxBulk                                                                             2 V
//	AM_SetHandler              Endpoint.SetHandler        1..255                                                   5 V
//	AM_MaxNumHandlers          NumHandlers                also AM_GetNumHandlers; the table does not grow, because
//	AM_SetNumHandlers          -                          a message names its handler by 8 bits
//	AM_SetHandlerAny           Endpoint.AddHandler        the first unused, never 0                                5 V
//	AM_SetHandler(0)           Endpoint.SetReturnHandler  the default ends the process, but not for replies        5 V
//	AM_SetExpectedResources    Config                     the same for all endpoints of a node; needed for nothing 8 V
//	AM_SetEventMask            Bundle.SetEventMask        NoEvents, NotEmpty                                       8 V
//	AM_GetEventMask            Bundle.EventMask                                                                    8 V
//	                           Endpoint.SetEventMask      per endpoint, as in the virtual-network paper; EventMask
//	AM_WaitSema                Bundle.Wait                ErrNoEvents when it would never return                   8 V
//	AM_Poll                    Bundle.Poll                all endpoints of the bundle                              8 V
//	AM_RequestM                Endpoint.Request           waits for a credit, unless Config.FailWithoutCredit      9 V
//	AM_RequestIM               Endpoint.RequestMedium     the same                                                 9 V
//	AM_RequestXferM            Endpoint.RequestBulk       returns when the data may be changed                     9 V
//	AM_RequestXferAsyncM       Endpoint.RequestBulkAsync  ErrInUse without a credit, after a poll                  9 V
//	AM_GetXferM                Endpoint.Get               the handler runs at the caller                           3 M
//	AM_ReplyM, IM, XferM       Token.Reply and so on      at most one, from the request's handler                  9 V
//	(none)                     Token.Defer                the same, after the handler has returned
//	AM_GetSourceEndpoint       Token.Source               as the sender names it                                   3 V
//	AM_GetDestEndpoint         Token.Endpoint                                                                      3 V
//	AM_GetMsgTag               Token.Tag                  of replies too                                           3 V
package endpoint

// Notes for maintainers, which go doc does not print.
//
// # Progress
//
// Handlers run only on goroutines that poll: in Poll and WaitPoll, and in requests and calls. Every
// request handles messages that were already received. It receives more if it has no credit.
// Otherwise some requests of a stream receive, and all requests that are microseconds apart, except
// for the first few. AM-II's requests poll each time, and then no two could share a frame. Replies
// never wait (slot.go explains why, and why nothing can deadlock). They never poll, because their
// handler is run by a goroutine that does (AM2 reference, section 8). A request handler must not
// block. It may only reply, or defer the reply (Token.Defer).
//
// A message is sent at once if no other one is in flight. The requests of a stream are batched into
// a message of the VI, until it is full, earlier messages are acknowledged, or the caller polls or
// waits. The replies to them wait until a poll has run its handlers. So a program that computes for
// a long time after requests should call Poll first.
//
// # Providers
//
// Below the endpoints is a provider, which carries messages and knows nothing of handlers (package
// internal/provider documents its contract). There are three: VIs, emulated LANai cards (package
// lanai), and memory for endpoints of the same node.
