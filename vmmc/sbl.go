package vmmc

import (
	"context"
	"fmt"
)

// SBL is a process by the calls and units of the SHRIMP Base Library: words of 4 bytes.
type SBL struct{ *Process }

// ExportRecvBuf exports words to everybody (SBL_ExportRecvBuf).
func (s SBL) ExportRecvBuf(buf []uint32, id uint32, handler Handler) (*Export, error) {
	return s.Export(bytesOf(buf), id, Everybody, handler)
}

// ImportRecvBuf imports a buffer and returns its address and its size in words
// (SBL_ImportRecvBuf).
func (s SBL) ImportRecvBuf(ctx context.Context, node Node, squid, id uint32) (ProxyAddr, int, error) {
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
