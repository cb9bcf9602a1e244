package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/bobnet-go/bobnet/examples/fileserver/internal/files"
)

// remote is the file tree of a server.
type remote struct{ files.FileV1Client }

// statusError is a failure reported by a server.
type statusError struct {
	op, path string
	status   files.FileStatus
}

func (e *statusError) Error() string { return fmt.Sprintf("%s %s: %v", e.op, e.path, e.status) }

// check returns the error of a call, or nil.
func check(op, path string, status files.FileStatus, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", op, path, err)
	case status != files.FileOk:
		return &statusError{op, path, status}
	}
	return nil
}

func (r *remote) list(ctx context.Context, dir string, fn func(string, files.FileKind) error) error {
	arg := files.ReaddirArgs{Path: files.FilePath(dir)}
	for {
		var res files.ReaddirResult
		err := r.Readdir(ctx, &arg, &res)
		if err := check("list", dir, res.Status, err); err != nil {
			return err
		}
		for e := res.Page.First; e != nil; e = e.Next {
			if e.Name <= arg.After {
				return fmt.Errorf("list %s: the server's names are not in order: %q after %q", dir, e.Name, arg.After)
			}
			arg.After = e.Name
			if err := fn(string(e.Name), e.Kind); err != nil {
				return err
			}
		}
		switch {
		case res.Page.End:
			return nil
		case res.Page.First == nil:
			return fmt.Errorf("list %s: the server returned an empty page before the end", dir)
		}
	}
}

// window is the number of concurrent reads of a file.
const window = 4

// pending is a read in progress.
type pending struct {
	arg  files.ReadArgs
	res  files.ReadResult
	err  error
	done chan struct{}
}

// stream reads a file with several calls in flight, so that neither the connection nor the server's
// disk waits for the other.
func (r *remote) stream(ctx context.Context, name string, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel() // ends calls that are still in flight
	var reads [window]pending
	issued := uint64(0)
	issue := func() {
		p := &reads[issued%window]
		p.arg = files.ReadArgs{Path: files.FilePath(name), Offset: issued * files.FileMaxData, Count: files.FileMaxData}
		p.done = make(chan struct{})
		issued++
		calls.Go(func() {
			defer close(p.done)
			p.err = r.Read(ctx, &p.arg, &p.res)
		})
	}
	for next := uint64(0); ; next++ {
		if issued == next { // the first one, which is the last one for a short file
			issue()
		}
		p := &reads[next%window]
		<-p.done
		if err := check("read", name, p.res.Status, p.err); err != nil {
			return err
		}
		chunk := p.res.Chunk
		if _, err := w.Write(chunk.Data); err != nil || chunk.End {
			return err
		}
		if len(chunk.Data) != files.FileMaxData {
			return fmt.Errorf("read %s: short read of %d bytes at offset %d: the file changed meanwhile", name, len(chunk.Data), p.arg.Offset)
		}
		for issued < next+1+window {
			issue()
		}
	}
}

func (r *remote) mkdir(ctx context.Context, name string) error {
	status, err := r.Mkdir(ctx, files.FilePath(name))
	return check("mkdir", name, status, err)
}

func (r *remote) create(ctx context.Context, name string) (io.WriteCloser, error) {
	return &upload{r: r, ctx: ctx, arg: files.WriteArgs{Path: files.FilePath(name)}}, nil
}

// upload writes a file, in as few calls as possible.
type upload struct {
	r   *remote
	ctx context.Context
	arg files.WriteArgs
	err error
}

func (u *upload) Write(p []byte) (n int, err error) {
	for len(p) > 0 && u.err == nil {
		if len(u.arg.Data) == files.FileMaxData {
			u.send()
		}
		part := p[:min(len(p), files.FileMaxData-len(u.arg.Data))]
		u.arg.Data = append(u.arg.Data, part...)
		n += len(part)
		p = p[len(part):]
	}
	return n, u.err
}

func (u *upload) send() {
	status, err := u.r.Write(u.ctx, &u.arg)
	u.err = check("write", string(u.arg.Path), status, err)
	u.arg.Offset += uint64(len(u.arg.Data))
	u.arg.Data = u.arg.Data[:0]
}

// Close writes the rest of the file.
func (u *upload) Close() error {
	if u.err != nil {
		return u.err
	}
	u.arg.Last = true
	u.send()
	return errors.Join(u.err, u.ctx.Err())
}
