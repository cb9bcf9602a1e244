package nodeagent

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/bobnet-go/bobnet/transport/agent"
	"golang.org/x/sys/unix"
)

// judge says whether a program may ask for anything at all.
func (s *Server) judge(conn *net.UnixConn, r *agent.Request, cred *unix.Ucred) (agent.Refusal, error) {
	policy, err := s.cfg.Policy()
	if err != nil {
		return agent.Failed, err
	}
	groups, err := groupsOf(conn)
	switch {
	case err != nil:
		return agent.Failed, fmt.Errorf("groups of a program: %w", err)
	case !policy.Allows(cred.Uid, cred.Gid, groups...):
		return agent.Denied, fmt.Errorf("user %d may not: ask the administrator of this node for --allow user:%d", cred.Uid, cred.Uid)
	case r.Version != agent.Version:
		return agent.Invalid, fmt.Errorf("the agent speaks version %d, the program %d: use the same release of both", agent.Version, r.Version)
	}
	return "", nil
}

// decide makes or takes what a request for sockets is about. On an error fds are the caller's.
func (s *Server) decide(r *agent.Request, cred *unix.Ucred, fds []int) (*agent.Grant, agent.Refusal, error) {
	switch {
	case s.cfg.Interfaces != nil && !slices.Contains(s.cfg.Interfaces, r.Interface):
		return nil, agent.Denied, fmt.Errorf("the agent serves %q, and not %q", s.cfg.Interfaces, r.Interface)
	case !slices.Contains(s.cfg.EtherTypes, r.EtherType):
		return nil, agent.Denied, fmt.Errorf("the agent serves EtherTypes %#04x, and not %#04x", s.cfg.EtherTypes, uint16(r.EtherType))
	case r.Ports.Hi < r.Ports.Lo, r.Held != (len(fds) > 0):
		return nil, agent.Invalid, fmt.Errorf("ports %d..%d with %d sockets", r.Ports.Lo, r.Ports.Hi, len(fds))
	}
	ifi, err := agent.Find(r)
	if err != nil {
		return nil, agent.Elsewhere, err
	}
	if r.Held {
		grant, err := agent.Take(r, ifi, fds)
		if err != nil || s.guard != nil && !ours(grant.Mark) {
			return nil, agent.Invalid, fmt.Errorf("ports %d..%d are not held by sockets of an agent's: %w", r.Ports.Lo, r.Ports.Hi, errors.Join(err, unix.EINVAL))
		}
		return s.admit(grant, cred)
	}
	if has, want := s.count(cred.Uid), agent.BlocksOf(r.Ports); cred.Uid != 0 && has+want > s.cfg.MaxBlocks {
		return nil, agent.Denied, fmt.Errorf("user %d has %d blocks of %d ports, and wants %d more: no user has more than %d", cred.Uid, has, blockSize, want, s.cfg.MaxBlocks)
	}
	var mark uint32
	if s.guard != nil {
		mark = s.guard.mark()
	}
	grant, err := agent.Make(r, ifi, mark)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, agent.Taken, err
	case errors.Is(err, unix.EINVAL):
		return nil, agent.Invalid, err
	case err != nil:
		return nil, agent.Failed, err
	}
	granted, refusal, err := s.admit(grant, cred)
	if err != nil {
		grant.Close()
	}
	return granted, refusal, err
}

// admit lets the sockets of a grant send, and notes whose the ports are.
func (s *Server) admit(g *agent.Grant, cred *unix.Ucred) (*agent.Grant, agent.Refusal, error) {
	first, last := g.Blocks()
	blocks := blocksOf(g.Interface.Index, g.EtherType, first, last)
	if s.guard != nil {
		if err := s.guard.allow(blocks, element{mark: g.Mark, mac: g.MAC(), long: g.Long}); err != nil {
			return nil, agent.Failed, err
		}
	}
	for _, b := range blocks {
		s.held[b] = cred.Uid
	}
	return g, "", nil
}

// count returns how many blocks a user has that the agent knows of.
func (s *Server) count(uid uint32) (n int) {
	for b, who := range s.held {
		switch {
		case who != uid:
		case agent.Claimed(b.index, b.typ, b.n):
			n++
		default:
			delete(s.held, b)
		}
	}
	return n
}
