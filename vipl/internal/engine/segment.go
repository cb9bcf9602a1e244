package engine

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// segment is the machine as its directory sees it.
type segment struct{ m *Machine }

func (s segment) Now() int64                                      { return s.m.Link.Now() }
func (s segment) Send(h ethertype.Header, parts ...[]byte)        { s.m.SendControl(h, parts...) }
func (s segment) SendPadded(h ethertype.Header, id []byte, n int) { s.m.SendPadded(h, id, n) }
func (s segment) Flush()                                          { s.m.Flush() }
func (s segment) Unknown()                                        { s.m.Drop(code.DropUnknown) }
func (s segment) Wait(w *progress.Waiter, g *progress.Gate) error { return s.m.Wait(w, g) }
func (s segment) Closed() bool                                    { return s.m.Closed }
func (s segment) Dead() error                                     { return s.m.Dead() }
func (s segment) Trouble() error                                  { return s.m.Trouble() }
func (s segment) ShareTrouble() error                             { return optional.ShareTrouble(s.m.Link) }
func (s segment) Speaks() bool {
	return s.m.hooks.Speaks == nil || s.m.hooks.Speaks(s.m.Now())
}
func (s segment) MayAnswer(kind guard.Answer) bool {
	return s.m.Strangers.Answers.Allow(kind, s.m.Now())
}
