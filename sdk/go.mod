module pawl.internal/sdk

go 1.26.0
