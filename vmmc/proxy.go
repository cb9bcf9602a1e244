package vmmc

import (
	"context"
	"fmt"
	"sort"

	"github.com/bobnet-go/bobnet/ethertype"
)

// PageSize is the size of a proxy page, and WordSize that of SBL's words, in bytes.
const (
	PageSize = 4096
	WordSize = 4
)

// ProxyAddr is an address in the destination proxy space of one process: a page number and an
// offset within the page. It stands for a byte of an imported buffer, and only sends use it.
// Addresses within an import count up from Import.Addr. No address is ever reused for another
// import, and each process has its own addresses.
type ProxyAddr uint64

// Page returns the page number.
func (a ProxyAddr) Page() uint64 { return uint64(a) / PageSize }

// Offset returns the offset within the page.
func (a ProxyAddr) Offset() int { return int(a % PageSize) }

// String returns page and offset.
func (a ProxyAddr) String() string { return fmt.Sprintf("proxy %#x+%d", a.Page(), a.Offset()) }

// proxySpace finds the import of an address. It allocates pages upwards, with a guard page between
// imports, and never reuses them.
type proxySpace struct {
	next   uint64 // page
	used   []proxyRange
	ended  []endedRange // the last mostEnded ones, a ring when it is full
	oldest int          // of ended, when it is full
}

type proxyRange struct {
	start, end ProxyAddr // of its bytes
	imp        *Import
}

// endedRange is the range of an import that has ended.
type endedRange struct {
	start, end ProxyAddr
	why        error
}

// mostEnded is the number of ended imports whose error is kept. Addresses of earlier ones belong to
// no import.
const mostEnded = 1024

// newProxySpace returns a space whose first page depends on a seed, so that addresses of other
// processes are not valid in it.
func newProxySpace(seed uint64) proxySpace {
	seed = (seed ^ seed>>31) * 0x9E3779B97F4A7C15
	return proxySpace{next: seed>>44<<31 | 1}
}

// allocate allocates an import of size bytes and returns its address.
func (s *proxySpace) allocate(size uint64, imp *Import) ProxyAddr {
	at := ProxyAddr(s.next * PageSize)
	s.next += max((size+PageSize-1)/PageSize, 1) + 1
	s.used = append(s.used, proxyRange{at, at + ProxyAddr(size), imp})
	return at
}

// find returns the index of the range that begins at or before a, -1 if there is none.
func (s *proxySpace) find(a ProxyAddr) int {
	return sort.Search(len(s.used), func(i int) bool { return s.used[i].start > a }) - 1
}

// remove removes an import's range, and keeps the error with which the import ended.
func (s *proxySpace) remove(a ProxyAddr, why error) {
	i := s.find(a)
	if i < 0 || s.used[i].start != a {
		return
	}
	x := endedRange{a, s.used[i].end, why}
	s.used = append(s.used[:i], s.used[i+1:]...)
	if len(s.ended) < mostEnded {
		s.ended = append(s.ended, x)
		return
	}
	s.ended[s.oldest] = x
	s.oldest = (s.oldest + 1) % mostEnded
}

// outside returns the error for an address outside all imports.
func (s *proxySpace) outside(a ProxyAddr) error {
	for _, x := range s.ended {
		if a >= x.start && a <= x.end {
			return fmt.Errorf("%w: the import that contained %v has ended", x.why, a)
		}
	}
	return fmt.Errorf("%w: %v is not in an import of this process (it was given up, or belongs to another process)", ErrProxy, a)
}

// errPastEnd is ErrProxy for an address in an import that is too short.
var errPastEnd = fmt.Errorf("%w", ErrProxy)

// resolve returns the import that contains all n bytes from a on, and the offset in it. For an
// import that has ended, it returns the import's error.
func (s *proxySpace) resolve(a ProxyAddr, n int) (*Import, uint64, error) {
	i := s.find(a)
	switch {
	case i < 0 || a > s.used[i].end:
		return nil, 0, s.outside(a)
	case uint64(n) > uint64(s.used[i].end-a):
		return nil, 0, fmt.Errorf("%w: %d bytes at %v, and the import ends after %d of them", errPastEnd, n, a, s.used[i].end-a)
	}
	return s.used[i].imp, uint64(a - s.used[i].start), nil
}

// SBL is a process with the calls and units of the SHRIMP Base Library: words of 4 bytes.
type SBL struct{ *Process }

// ExportRecvBuf exports words to all processes (SBL_ExportRecvBuf).
func (s SBL) ExportRecvBuf(buf []uint32, id uint32, handler Handler) (*Export, error) {
	return s.Export(bytesOf(buf), id, Everybody, handler)
}

// ImportRecvBuf imports a buffer and returns its address and its size in words
// (SBL_ImportRecvBuf).
func (s SBL) ImportRecvBuf(ctx context.Context, node ethertype.MAC, squid, id uint32) (ProxyAddr, int, error) {
	i, err := s.Import(ctx, Name{node, squid, id})
	if err != nil {
		return 0, 0, err
	}
	return i.Addr(), i.Size() / WordSize, nil
}

// SendWords sends words (SBL_SendMsg). dst must be aligned to a word.
func (s SBL) SendWords(ctx context.Context, src []uint32, dst ProxyAddr) error {
	return s.words(ctx, src, dst, false)
}

// SendWordsWithNotify is SendWords with a notification (SBL_SendMsgWithNotify).
func (s SBL) SendWordsWithNotify(ctx context.Context, src []uint32, dst ProxyAddr) error {
	return s.words(ctx, src, dst, true)
}

func (s SBL) words(ctx context.Context, src []uint32, dst ProxyAddr, notify bool) error {
	if dst%WordSize != 0 {
		return fmt.Errorf("%w: %v is not the address of a word", ErrArgument, dst)
	}
	return s.sendMsg(ctx, bytesOf(src), dst, notify)
}
