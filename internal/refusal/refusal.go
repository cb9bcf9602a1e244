// Package refusal creates and recognizes refusals of connection requests between the ranks of a
// job. A refusal states whether the requesting rank should try again.
package refusal

import (
	"errors"
	"strings"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/vipl"
)

// busy is the text of a request that a rank cannot handle now.
const busy = "too many ask at once: ask again"

// lacking begins the refusal of a rank that has no resources for the connection.
const lacking = "no resources: "

// Busy refuses a request because this rank is busy. The requesting rank tries again.
func Busy(req *vipl.Request) { req.Reject(busy) }

// Because refuses a request because this rank cannot create its end of the connection. If the cause
// is the lack of a resource, Classed recognizes this at the requesting rank.
func Because(req *vipl.Request, why error) {
	text := why.Error()
	if errors.Is(why, vipl.ErrResource) {
		text = lacking + text
	}
	req.Reject(text)
}

// Classed returns the error of an attempt to connect. If the other rank lacked a resource, the
// error is also an ErrResource, and its text names the limit and how to raise it at that rank.
func Classed(err error) error {
	var refused *vipl.ConnError
	if errors.Is(err, vipl.ErrReject) && errors.As(err, &refused) && strings.HasPrefix(refused.Detail, lacking) {
		return errclass.With(vipl.ErrResource, err)
	}
	return err
}

// Passing reports whether an attempt to connect that ended with err proves nothing about the rank,
// so that the caller may dial it again later: the rank was busy, or it gave up the attempt. A rank
// without a listener answers like one that gave up an attempt (vipl.ErrNoMatch).
func Passing(err error) bool {
	return errors.Is(err, vipl.ErrNoMatch) || errors.Is(err, vipl.ErrDisconnected) || IsBusy(err)
}

// IsBusy reports whether the other rank was busy.
func IsBusy(err error) bool {
	var refused *vipl.ConnError
	return errors.As(err, &refused) && refused.Detail == busy
}
