package servers

import (
	"fmt"
	"os"
	"path/filepath"
)

// named returns the folder that a variable of the environment names, or nothing
// where it is not set. A folder that lacks one of the programs is an error, and
// not [ErrMissing], which skips tests: who names a release wants that one.
func named(env string, programs ...string) (string, error) {
	dir := os.Getenv(env)
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("servers: %s: %w", env, err)
	}
	for _, p := range programs {
		if !isProgram(filepath.Join(abs, p)) {
			return "", fmt.Errorf("servers: %s names %s, where there is no program %s", env, abs, p)
		}
	}
	return abs, nil
}

func isProgram(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
