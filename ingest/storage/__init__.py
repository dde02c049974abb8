"""Documents in Azure Blob storage, also in Data Lake Storage with its access lists."""
