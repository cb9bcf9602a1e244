// Package sim simulates an Ethernet segment in virtual time: a switch, stations that are
// transport.Links, and processes that use them. One seed determines everything, so that a failure
// can be reproduced. An hour of timeouts takes only as much real time as the processing of its
// frames.
//
//	w := sim.New(sim.Options{Seed: seed, Loss: 0.1})
//	a, b := w.Station("a"), w.Station("b")
//	w.Go("client", func() { ... a.Send(frames) ... a.Wait(deadline) ... })
//	w.Go("server", func() { ... b.Wait(transport.Forever) ... b.Recv(views) ... })
//	err := w.Run()
//
// # The segment
//
//	station          switch                        station
//	Send -> uplink ----Delay---> faults -> output -> Recv
//	        TxSlots     +Jitter            Queue     RxSlots
//	        Bandwidth                      Bandwidth
//
// Each station has an uplink, a queue with a serial line behind it. The switch has one such queue for
// every station. If all stations send to one, its queue is the bottleneck, and frames that do not fit
// are lost. A frame to a group address goes to all other stations, each copy with its own faults. A
// frame to its own sender goes nowhere, as on a real switch. Computation takes no virtual time.
//
// # Processes
//
// A process is a coroutine. Exactly one runs at a time, until it blocks in Station.Wait, World.Sleep or
// at a Place of its station. Ready processes run in the order in which they became ready. If none is
// ready, the clock jumps to the next event. A test may end itself (testing.T.FailNow) from within a
// process.
//
// Without Run, the goroutine that owns the world may also call Wait and Sleep. The world and its
// processes then continue until the call returns.
package sim
